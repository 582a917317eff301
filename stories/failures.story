# A node fails, another is taken away with two minutes of notice. The gang starts again with what it had saved.

restarts cost 2m
node n H100 x8 count 3
queue team

submit train to team needs 8 x2 runs 3h saves every 30m
  | 0:00:00  train starts on n1, n2
at 1h40m
fail n1
  | 1:40:00  train is back in its queue, 160 GPU-minutes lost
  | 1:40:00  train starts on n2, n3
at 2h
notice n2 2m
at 2h10m
  | 2:02:00  train is back in its queue, 352 GPU-minutes lost
return n1
  | 2:10:00  train starts on n1, n3
at 6h
  | 3:42:00  train ends
show job train
  | train started after 0:00:00, ended after 3:42:00, lost a node 2 times
