# A team that left its GPUs unused for a day may use more than its own the next day, and keeps them: for what it saved,
# and no longer.

policy reclaim true
node n H100 x8 count 2
queue thrifty quota 8 limit 16 banks up to 64
queue busy    quota 8 limit 16 reclaims after 5m

at 1d
show bank thrifty
  | thrifty has 64 GPU-hours in the bank

# 16 GPUs instead of 8. The eight beyond its own are paid from the bank: 64 GPU-hours last for eight hours.
submit 2 of burst to thrifty needs 8 runs 20h saves every 30m
  | 24:00:00  2 of burst: start
at 1d1h
show bank thrifty
  | thrifty has 56 GPU-hours in the bank

# Busy wants its own back, and waits as long as thrifty pays.
submit work to busy needs 8 runs 2h
at 1d4h
show bank thrifty
  | thrifty has 32 GPU-hours in the bank
why work
  | work: needs a node with 8 free H100; none fits (0 H100 free in all)
at 1d12h
  | 32:00:00  burst-1 gives back to work
  | 32:00:30  burst-1 is back in its queue, 4 GPU-minutes lost
  | 32:00:30  work starts on n1
  | 34:00:30  work ends
  | 34:00:30  burst-1 starts on n1
show bank thrifty
  | thrifty has 0 GPU-hours in the bank
show job work
  | work started after 7:00:30, ended after 9:00:30
