# Three teams under one roof. Exploration lives on what the others leave; production takes its part back within five
# minutes, and a job that just started is left alone for ten.

policy reclaim true
node n H100 x8 count 4
queue company quota 32
queue production  under company quota 16 limit 32 reclaims after 5m
queue research    under company quota 12 limit 32 reclaims after 5m
queue exploration under company quota 4  limit 32 protects 10m

submit 4 of sweep to exploration needs 8 runs 12h saves every 15m
  | 0:00:00  4 of sweep: start
at 2h
show queues
  | company holds 32 (quota 32 H100): 4 running, 0 waiting
  | exploration holds 32 (quota 4 H100, limit 32 H100): 4 running, 0 waiting
  | production holds 0 (quota 16 H100, limit 32 H100): 0 running, 0 waiting
  | research holds 0 (quota 12 H100, limit 32 H100): 0 running, 0 waiting

# Production needs its half. Two of the four sweeps give way: those that lose least.
submit 2 of serve to production needs 8 runs 24h
at 2h04m
at 2h06m
  | 2:05:00  sweep-1 gives back to serve-1
  | 2:05:00  sweep-2 gives back to serve-2
  | 2:05:30  2 of sweep: are back in their queue
  | 2:05:30  2 of serve: start
show queues
  | company holds 32 (quota 32 H100): 4 running, 2 waiting
  | exploration holds 16 (quota 4 H100, limit 32 H100): 2 running, 2 waiting
  | production holds 16 (quota 16 H100, limit 32 H100): 2 running, 0 waiting
  | research holds 0 (quota 12 H100, limit 32 H100): 0 running, 0 waiting

# Research is still owed 12 of its own, and takes what fits: one node.
submit train to research needs 8 runs 6h
at 2h20m
  | 2:11:00  sweep-3 gives back to train
  | 2:11:30  sweep-3 is back in its queue, 92 GPU-minutes lost
  | 2:11:30  train starts on n3
show queues
  | company holds 32 (quota 32 H100): 4 running, 3 waiting
  | exploration holds 8 (quota 4 H100, limit 32 H100): 1 running, 3 waiting
  | production holds 16 (quota 16 H100, limit 32 H100): 2 running, 0 waiting
  | research holds 8 (quota 12 H100, limit 32 H100): 1 running, 0 waiting
