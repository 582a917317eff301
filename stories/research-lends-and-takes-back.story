# Research owns half of the cluster and does not need it tonight. Production borrows it; when research comes back, it
# has its GPUs again within five minutes, and production loses only what it had not saved.

policy reclaim true
node a H100 x8
node b H100 x8
queue research   quota 8 limit 16 reclaims after 5m
queue production quota 8 limit 16

submit serve to production needs 8 runs 10h
submit batch to production needs 8 runs 4h saves every 10m
  | 0:00:00  batch starts on a
  | 0:00:00  serve starts on b

# Both run: batch borrows what research does not use.
at 1h05m
show queues
  | production holds 16 (quota 8 H100, limit 16 H100): 2 running, 0 waiting
  | research holds 0 (quota 8 H100, limit 16 H100): 0 running, 0 waiting

# Research is back. Batch is within its rights for five minutes more, then it gives way.
submit train to research needs 8 runs 2h
at 1h09m
why train
  | train: needs a node with 8 free H100; none fits (0 H100 free in all)
  | train: its queue takes back quota that it lent, from 1:10:00 on
at 1h15m
  | 1:10:00  batch gives back to train
  | 1:10:30  batch is back in its queue, 4 GPU-minutes lost
  | 1:10:30  train starts on a

# Batch starts again when there is room, with what it had saved.
at 6h30m
  | 3:10:30  train ends
  | 3:10:30  batch starts on a
  | 6:00:30  batch ends
show job batch
  | batch started after 0:00:00, ended after 6:00:30, gave way once
show job train
  | train started after 0:05:30, ended after 2:05:30
