# Two teams want everything all the time. One has weight 60, the other 40; that is what they get.

node n H100 x8 count 5
queue research weight 60
queue product  weight 40
quiet
submit 700 of train to research needs 4 runs 2h
submit 600 of tune  to product  needs 4 runs 2h
at 1d
show shares
  | product had 384 GPU-hours, 40.0 %
  | research had 576 GPU-hours, 60.0 %
at 7d
show shares
  | product had 2688 GPU-hours, 40.0 %
  | research had 4032 GPU-hours, 60.0 %
