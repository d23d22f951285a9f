//! A local search over short traces.

use super::Goal;
use super::play::{Play, Played, Wish};
use crate::answers::nominal;
use crate::traffic::Attack;
use crate::traffic::random::{Chance, Stream};

/// The longest trace: the worst need two to four requests.
const MOST_WISHES: usize = 8;

/// The number of restarts.
const ROUNDS: u32 = 8;

/// The badness of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Score {
    pub(super) amount: u64,
    pub(super) nominal: u64,
    pub(super) window_us: u64,
}

impl Score {
    const NOTHING: Score = Score { amount: 0, nominal: 1, window_us: 1 };

    fn exceeds(&self, other: &Score) -> bool {
        let part = |a: u64, b: u64| u128::from(a) * u128::from(b);
        part(self.amount, other.nominal) > part(other.amount, self.nominal)
    }
}

pub(super) struct Search<'a> {
    play: &'a Play<'a>,
    goal: Goal,
    chance: Chance,
    /// Capacity and window of the exact logs.
    logs: Vec<(u64, u64)>,
}

impl<'a> Search<'a> {
    pub(super) fn new(play: &'a Play<'a>, goal: Goal, seed: u64) -> Search<'a> {
        let chance = Chance::new(seed, Stream::Search);
        Search { play, goal, chance, logs: nominal(play.limit).collect() }
    }

    /// Returns the worst of this many tried traces, without useless wishes; `None` if none is bad.
    pub(super) fn run(mut self, budget: u32) -> Option<(Vec<Wish>, Score)> {
        let starts = self.starts();
        let (mut best, mut best_score) = (Vec::new(), Score::NOTHING);
        for round in 0..ROUNDS {
            let mut wishes = starts[round as usize % starts.len()].clone();
            let mut score = self.score(&wishes);
            let mut worst = (wishes.clone(), score);
            for _ in 0..budget / ROUNDS {
                let other = self.changed(&wishes);
                let other_score = self.score(&other);
                // One that is as bad is taken too: it may be on the way to a worse one.
                if !score.exceeds(&other_score) {
                    (wishes, score) = (other, other_score);
                }
                if score.exceeds(&worst.1) {
                    worst = (wishes.clone(), score);
                }
            }
            let (wishes, score) = self.shrunk(worst.0);
            let is_simpler = !best_score.exceeds(&score) && wishes.len() < best.len();
            if score.exceeds(&best_score) || is_simpler {
                (best, best_score) = (wishes, score);
            }
        }
        (best_score.amount > 0).then_some((best, best_score))
    }

    /// Returns known bad placements: the start of this limit's attack, everything at the ends of windows, and everything
    /// twice, a window apart.
    fn starts(&self) -> Vec<Vec<Wish>> {
        let (_, window) = self.logs[0];
        let all = |offset| Wish { offset, cost: u64::MAX };
        let mut starts = vec![
            vec![Wish { offset: 0, cost: 1 }, all(window - 1), all(window)],
            vec![all(0), all(window + 1)],
        ];
        if let Some(attack) = Attack::on(self.play.limit) {
            let groups = attack.groups_from(self.play.start).take(MOST_WISHES);
            let within = groups.take_while(|(offset, _)| *offset < self.play.length);
            starts.push(within.map(|(offset, cost)| Wish { offset, cost }).collect());
        }
        starts
    }

    fn score(&self, wishes: &[Wish]) -> Score {
        let played = self.play.play(wishes);
        let ends = 0..played.len();
        let scores = ends.flat_map(|end| self.scores_at(&played[..=end]));
        scores
            .fold(Score::NOTHING, |worst, score| if score.exceeds(&worst) { score } else { worst })
    }

    /// Returns the badness of the last moment, for each limit of a composite.
    fn scores_at(&self, played: &[Played]) -> Vec<Score> {
        let last = played[played.len() - 1];
        let most_admitted = |&(nominal, window_us): &(u64, u64)| {
            let recent = played.iter().rev().take_while(|p| last.offset - p.offset < window_us);
            Score { amount: recent.map(|p| p.admitted).sum(), nominal, window_us }
        };
        match self.goal {
            Goal::MostAdmitted => self.logs.iter().map(most_admitted).collect(),
            Goal::FalselyDenied => vec![Score {
                amount: last.room.saturating_sub(last.remained),
                nominal: self.play.limit.capacity(),
                window_us: self.logs[0].1,
            }],
        }
    }

    /// Returns the wishes with one moved, changed, added or removed.
    fn changed(&mut self, wishes: &[Wish]) -> Vec<Wish> {
        let mut wishes = wishes.to_vec();
        let place = self.chance.below(wishes.len().max(1) as u32) as usize;
        match self.chance.below(4) {
            0 if wishes.len() < MOST_WISHES => {
                let wish = Wish { offset: self.time(&wishes), cost: self.cost() };
                wishes.push(wish);
            }
            1 if wishes.len() > 1 => drop(wishes.remove(place)),
            2 if !wishes.is_empty() => wishes[place].cost = self.cost(),
            _ if !wishes.is_empty() => wishes[place].offset = self.time(&wishes),
            _ => {}
        }
        wishes.sort_unstable();
        wishes
    }

    /// Returns a time of possible change: windows after the start or another wish, give or take a microsecond; or any time.
    fn time(&mut self, wishes: &[Wish]) -> u64 {
        if self.chance.below(4) == 0 {
            return self.chance.between(0, self.play.length - 1);
        }
        let other = self.chance.below(wishes.len() as u32 + 1) as usize;
        let from = wishes.get(other).map_or(0, |wish| wish.offset);
        let (_, window) = self.logs[self.chance.below(self.logs.len() as u32) as usize];
        let windows = window.saturating_mul(u64::from(self.chance.below(super::SPAN as u32)));
        let beside = u64::from(self.chance.below(3));
        (from.saturating_add(windows) + beside).saturating_sub(1).min(self.play.length - 1)
    }

    fn cost(&mut self) -> u64 {
        match self.chance.below(4) {
            0 => 1,
            1 => self.chance.between(1, self.play.limit.capacity()),
            _ => u64::MAX,
        }
    }

    /// Returns the wishes up to the worst moment, without useless ones.
    fn shrunk(&self, mut wishes: Vec<Wish>) -> (Vec<Wish>, Score) {
        let score = self.score(&wishes);
        for place in (0..wishes.len()).rev() {
            let mut fewer = wishes.clone();
            fewer.remove(place);
            if !score.exceeds(&self.score(&fewer)) {
                wishes = fewer;
            }
        }
        (wishes, score)
    }
}
