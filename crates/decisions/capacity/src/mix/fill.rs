//! What to put into one machine: the contents of the largest worth, or all contents that are worth enough.

/// Members that could be put there.
#[derive(Clone, Copy)]
pub struct Candidate {
    /// The caller's name for them.
    pub id: usize,
    pub need: [u64; 3],
    pub most: u32,
    pub worth: f64,
}

/// Contents of one machine: how many of each candidate, and what they are worth together.
#[derive(Clone, Debug, PartialEq)]
pub struct Filling {
    pub contents: Vec<(usize, u32)>,
    pub worth: f64,
}

/// Whether contents that leave this room are to be considered as they are.
pub type IsFull<'a> = dyn Fn(&[(usize, u32)], [u64; 3]) -> bool + 'a;

/// What the best contents are worth, or at most are if the search was cut short.
pub struct Best {
    pub filling: Filling,
    pub worth_at_most: f64,
}

/// The contents of the largest worth, by branch and bound with at most this many steps.
pub fn best(capacity: [u64; 3], mut candidates: Vec<Candidate>, steps_max: u32) -> Best {
    candidates.retain(|it| it.worth > 0.0 && it.most > 0);
    sort_by_density(capacity, &mut candidates);
    let mut search = Search::new(capacity, &candidates, steps_max);
    let bound = search.worth_of_rest(0, capacity);
    let mut found = Filling { contents: Vec::new(), worth: 0.0 };
    let mut chosen = Vec::new();
    let complete = search.best(0, capacity, 0.0, &mut chosen, &mut found);
    let worth_at_most = if complete { found.worth } else { bound };
    Best { filling: found, worth_at_most }
}

/// The contents of the largest worth that hold one of the first candidate.
pub fn best_with_first(capacity: [u64; 3], mut candidates: Vec<Candidate>, steps_max: u32) -> Filling {
    let first = candidates[0];
    candidates[0].most -= 1;
    let mut filling = best(less(capacity, first.need, 1), candidates, steps_max).filling;
    filling.worth += first.worth;
    match filling.contents.iter_mut().find(|(id, _)| *id == first.id) {
        Some((_, count)) => *count += 1,
        None => filling.contents.push((first.id, 1)),
    }
    filling
}

/// All contents with the first candidate in them, worth more than `worth_min`, that `is_full` accepts; at most this
/// many steps. Returns whether these are all.
pub fn all(
    capacity: [u64; 3],
    candidates: &[Candidate],
    worth_min: f64,
    steps_max: u32,
    is_full: &IsFull,
) -> (Vec<Filling>, bool) {
    let mut search = Search::new(capacity, candidates, steps_max);
    let mut found = Vec::new();
    let complete = search.all(0, capacity, 0.0, worth_min, &mut Vec::new(), &mut found, is_full);
    (found, complete)
}

/// Those worth most for what they take come first.
fn sort_by_density(capacity: [u64; 3], candidates: &mut [Candidate]) {
    let density = |it: &Candidate| {
        let taken: f64 = (0..3).map(|at| ratio(it.need[at], capacity[at])).fold(1e-12, f64::max);
        it.worth / taken
    };
    let mut sorted: Vec<(f64, Candidate)> = candidates.iter().map(|it| (density(it), *it)).collect();
    sorted.sort_by(|(left, a), (right, b)| right.total_cmp(left).then(a.id.cmp(&b.id)));
    for (place, (_, it)) in candidates.iter_mut().zip(sorted) {
        *place = it;
    }
}

struct Search<'a> {
    candidates: &'a [Candidate],
    /// By place; one more for the end.
    rest: Vec<Rest>,
    steps_left: u32,
}

/// What candidates from one place on are worth at most.
#[derive(Clone, Copy, Default)]
struct Rest {
    /// One unit of each resource.
    density: [f64; 3],
    /// All of them.
    sum: f64,
}

impl<'a> Search<'a> {
    fn new(capacity: [u64; 3], candidates: &'a [Candidate], steps_max: u32) -> Self {
        let mut rest = vec![Rest::default(); candidates.len() + 1];
        for (place, it) in candidates.iter().enumerate().rev() {
            let after = rest[place + 1];
            let most = it.most.min(fitting(it.need, capacity));
            rest[place].sum = after.sum + it.worth.max(0.0) * f64::from(most);
            rest[place].density = std::array::from_fn(|at| {
                let own = if it.need[at] == 0 { f64::INFINITY } else { it.worth / float(it.need[at]) };
                after.density[at].max(if it.worth > 0.0 { own } else { 0.0 })
            });
        }
        Self { candidates, rest, steps_left: steps_max }
    }

    fn worth_of_rest(&self, place: usize, left: [u64; 3]) -> f64 {
        let Rest { density, sum } = self.rest[place];
        let by_resource = |at: usize| {
            if density[at] == f64::INFINITY { f64::INFINITY } else { density[at] * float(left[at]) }
        };
        (0..3).map(by_resource).fold(sum, f64::min)
    }

    fn best(
        &mut self,
        place: usize,
        left: [u64; 3],
        worth: f64,
        chosen: &mut Vec<(usize, u32)>,
        found: &mut Filling,
    ) -> bool {
        if worth > found.worth + 1e-12 {
            *found = Filling { contents: chosen.clone(), worth };
        }
        if place == self.candidates.len() || worth + self.worth_of_rest(place, left) <= found.worth + 1e-12 {
            return true;
        }
        if self.steps_left == 0 {
            return false;
        }
        self.steps_left -= 1;
        let it = self.candidates[place];
        let most = it.most.min(fitting(it.need, left));
        for count in (0..=most).rev() {
            if count > 0 {
                chosen.push((it.id, count));
            }
            let complete = self.best(
                place + 1,
                less(left, it.need, count),
                worth + it.worth * f64::from(count),
                chosen,
                found,
            );
            if count > 0 {
                chosen.pop();
            }
            if !complete {
                return false;
            }
        }
        true
    }

    #[expect(clippy::too_many_arguments, reason = "one recursion, all of it changes")]
    fn all(
        &mut self,
        place: usize,
        left: [u64; 3],
        worth: f64,
        worth_min: f64,
        chosen: &mut Vec<(usize, u32)>,
        found: &mut Vec<Filling>,
        is_full: &IsFull,
    ) -> bool {
        if place == self.candidates.len() {
            if worth > worth_min && is_full(chosen, left) {
                found.push(Filling { contents: chosen.clone(), worth });
            }
            return true;
        }
        if worth + self.worth_of_rest(place, left) <= worth_min {
            return true;
        }
        if self.steps_left == 0 {
            return false;
        }
        self.steps_left -= 1;
        let it = self.candidates[place];
        let most = it.most.min(fitting(it.need, left));
        for count in (u32::from(place == 0)..=most).rev() {
            if count > 0 {
                chosen.push((it.id, count));
            }
            let worth = worth + it.worth * f64::from(count);
            let complete =
                self.all(place + 1, less(left, it.need, count), worth, worth_min, chosen, found, is_full);
            if count > 0 {
                chosen.pop();
            }
            if !complete {
                return false;
            }
        }
        true
    }
}

/// How many members of this need fit into the room.
pub fn fitting(need: [u64; 3], room: [u64; 3]) -> u32 {
    let by_resource = |at: usize| room[at].checked_div(need[at]).unwrap_or(u64::MAX);
    let count = (0..3).map(by_resource).min().unwrap_or(0);
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Whether this many members of this need fit into the room.
pub fn fits(need: [u64; 3], count: u32, room: [u64; 3]) -> bool {
    need.iter().zip(room).all(|(need, room)| need.saturating_mul(u64::from(count)) <= room)
}

/// The room that this many of them leave.
pub fn less(room: [u64; 3], need: [u64; 3], count: u32) -> [u64; 3] {
    std::array::from_fn(|at| room[at] - need[at] * u64::from(count))
}

#[expect(clippy::cast_precision_loss, reason = "amounts of machines are far below 2^53")]
pub fn float(amount: u64) -> f64 {
    amount as f64
}

fn ratio(part: u64, whole: u64) -> f64 {
    if part == 0 { 0.0 } else { float(part) / float(whole.max(1)) }
}
