# Two jobs wait for the same GPUs. The younger one must be done at noon; it goes first, and both are in time.

node a H100 x8
queue team

submit now to team needs 8 runs 2h within 2h
  | 0:00:00  now starts on a
at 1h
submit patient to team needs 8 runs 8h within 8h
submit urgent  to team needs 8 runs 3h within 3h by 6h
at 14h
  | 2:00:00  now ends
  | 2:00:00  urgent starts on a
  | 5:00:00  urgent ends
  | 5:00:00  patient starts on a
  | 13:00:00  patient ends
show job urgent
  | urgent started after 1:00:00, ended after 4:00:00
show job patient
  | patient started after 4:00:00, ended after 12:00:00
