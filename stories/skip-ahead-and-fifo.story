# Without reservations, who fits goes first. In strict order, one that is blocked holds up all.

policy skip-ahead
node a H100 x8
queue team

submit half to team needs 4 runs 1h
  | 0:00:00  half starts on a
at 1m
submit whole to team needs 8 runs 1h
at 2m
submit small to team needs 2 runs 10m
  | 0:02:00  small starts on a
at 3h
  | 0:12:00  small ends
  | 1:00:00  half ends
  | 1:00:00  whole starts on a
  | 2:00:00  whole ends

policy fifo
submit half-again to team needs 4 runs 1h
  | 3:00:00  half-again starts on a
at 3h01m
submit whole-again to team needs 8 runs 1h
at 3h02m
submit small-again to team needs 2 runs 10m
at 6h
  | 4:00:00  half-again ends
  | 4:00:00  whole-again starts on a
  | 5:00:00  whole-again ends
  | 5:00:00  small-again starts on a
  | 5:10:00  small-again ends
