# A team that writes `production` on everything gets no more than what others borrow: what a queue owns stays with it,
# however urgent the others say they are.

policy installed
node n H100 x8 count 4
queue nlp    quota 16 limit 32
queue speech quota 16 limit 32

submit 2 of owned to speech needs 8 runs 12h priority 2000
submit 1 of borrowed to speech needs 8 runs 12h priority 2000
submit 1 of train to nlp needs 8 runs 12h priority 2000
  | 0:00:00  train-1 starts on n1
  | 0:00:00  borrowed-1 starts on n2
  | 0:00:00  2 of owned: start
at 1h
show queues
  | nlp holds 8 (quota 16 H100, limit 32 H100): 1 running, 0 waiting
  | speech holds 24 (quota 16 H100, limit 32 H100): 3 running, 0 waiting

# Three more, all of them urgent: one takes the place of its own team's train, one takes what speech borrows, and the
# last waits.
submit 3 of rob to nlp needs 8 runs 12h priority 4000
  | 1:00:00  train-1 gives way to rob-1
  | 1:00:00  borrowed-1 gives way to rob-2
at 2h
  | 1:00:30  train-1 is back in its queue, 484 GPU-minutes lost
  | 1:00:30  borrowed-1 is back in its queue, 484 GPU-minutes lost
  | 1:00:30  2 of rob: start
show queues
  | nlp holds 16 (quota 16 H100, limit 32 H100): 2 running, 2 waiting
  | speech holds 16 (quota 16 H100, limit 32 H100): 2 running, 1 waiting
why rob-3
  | rob-3: needs a node with 8 free H100; none fits (0 H100 free in all)

# The admin lets production take quota from research.
policy priority-takes-quota production>research
at 3h
  | 2:00:00  owned-1 gives way to rob-3
  | 2:00:30  owned-1 is back in its queue, 964 GPU-minutes lost
  | 2:00:30  rob-3 starts on n3
show queues
  | nlp holds 24 (quota 16 H100, limit 32 H100): 3 running, 1 waiting
  | speech holds 8 (quota 16 H100, limit 32 H100): 1 running, 2 waiting
