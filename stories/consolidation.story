# Eight GPUs are free, but not on one node. Moving one small job that saves its state makes room for a whole one.

policy consolidation-moves 2
node n H100 x8 count 2
queue team

submit filler to team needs 4 runs 1h
  | 0:00:00  filler starts on n1
at 1m
submit keeper to team needs 4 runs 20h saves every 5m
  | 0:01:00  keeper starts on n1
at 2m
submit other-filler to team needs 4 runs 1h
  | 0:02:00  other-filler starts on n2
at 3m
submit other-keeper to team needs 4 runs 20h saves every 5m
  | 0:03:00  other-keeper starts on n2
at 1h30m
  | 1:00:00  filler ends
  | 1:02:00  other-filler ends
show nodes
  | n1 4 of 8 in use
  | n2 4 of 8 in use

submit whole to team needs 8 runs 1h
  | 1:30:00  other-keeper moves for whole
at 2h
  | 1:30:30  other-keeper is back in its queue, 10 GPU-minutes lost
  | 1:30:30  whole starts on n2
  | 1:30:30  other-keeper starts on n1
show nodes
  | n1 8 of 8 in use
  | n2 8 of 8 in use
show job whole
  | whole started after 0:00:30
