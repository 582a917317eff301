# A gang needs the whole cluster while small jobs keep coming. With a reservation it starts when the jobs that run are
# over; small jobs may go ahead only if they are done by then.

policy easy
node n H100 x8 count 2
queue team

submit 2 of long to team needs 4 runs 2h within 2h
  | 0:00:00  2 of long: start
at 10m
submit big to team needs 8 x2 runs 1h within 1h
why big
  | big: needs 8 free H100 on a node for each of 2 members; 1 fits (8 H100 free in all)

# Eight GPUs are free for nearly two hours. Who says that he needs one hour gets in; who needs three has to wait.
submit short to team needs 8 runs 1h within 1h
submit tardy to team needs 8 runs 3h within 3h
  | 0:10:00  short starts on n2
at 1h
show nodes
  | n1 8 of 8 in use
  | n2 8 of 8 in use
at 6h30m
  | 1:10:00  short ends
  | 2:00:00  2 of long: end
  | 2:00:00  big starts on n1, n2
  | 3:00:00  big ends
  | 3:00:00  tardy starts on n1
  | 6:00:00  tardy ends
show job big
  | big started after 1:50:00, ended after 2:50:00
show job tardy
  | tardy started after 2:50:00, ended after 5:50:00
