# The room is cooled for 12 kW. Three nodes are there, and two may be in use.

policy cap-watts 12000
policy packing least-power
node n H100 x8 count 3 watts 1000 600
queue team

submit 3 of hot to team needs 8 runs 1h
  | 0:00:00  2 of hot: start
why hot-3
  | hot-3: all nodes would draw 17400 of 12000 watts; they draw 11600
at 1h
  | 1:00:00  2 of hot: end
  | 1:00:00  hot-3 starts on n1
show nodes
  | n1 8 of 8 in use
  | n2 0 of 8 in use
  | n3 0 of 8 in use
at 3h
  | 2:00:00  hot-3 ends
