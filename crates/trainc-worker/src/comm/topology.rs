//! Which ranks form which group. Hosts hold equal, consecutive runs of ranks; a group that spans hosts is taken in two
//! steps, as MiCS does: its members on one host, and the members at the same place of each host.

/// Ranks and hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Ranks of a shard group.
    pub shards: usize,
    /// Shard groups.
    pub replicas: usize,
    /// Hosts; divides the ranks.
    pub hosts: usize,
}

/// A kind of group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// All ranks.
    World,
    /// One copy of the parameters.
    Shard,
    /// The same shard of each copy.
    Replica,
}

/// All kinds.
pub const KINDS: [Kind; 3] = [Kind::World, Kind::Shard, Kind::Replica];

/// A group's two steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Members on one host.
    Inner,
    /// Members at one place of each host.
    Outer,
}

impl Topology {
    /// Ranks.
    pub fn ranks(&self) -> usize {
        self.shards * self.replicas
    }

    /// Ranks of one host.
    pub fn per_host(&self) -> usize {
        self.ranks() / self.hosts
    }

    /// Whether groups can be taken in two steps: whole shard groups on each host, or whole hosts in each shard group.
    pub fn fits(&self) -> bool {
        let here = self.per_host();
        self.ranks().is_multiple_of(self.hosts)
            && (here.is_multiple_of(self.shards) || self.shards.is_multiple_of(here))
    }

    /// What the members of a step's group have in common.
    fn key(&self, kind: Kind, step: Step, rank: usize) -> (usize, usize) {
        let group = match kind {
            Kind::World => 0,
            Kind::Shard => rank / self.shards,
            Kind::Replica => rank % self.shards,
        };
        let place = match step {
            Step::Inner => rank / self.per_host(),
            Step::Outer => rank % self.per_host(),
        };
        (group, place)
    }

    /// The ranks of the group of `rank`, in order.
    pub fn members(&self, kind: Kind, step: Step, rank: usize) -> Vec<usize> {
        let key = self.key(kind, step, rank);
        (0..self.ranks()).filter(|other| self.key(kind, step, *other) == key).collect()
    }

    /// Every group of one step, each once, in order of its first rank.
    pub fn groups(&self, kind: Kind, step: Step) -> Vec<Vec<usize>> {
        (0..self.ranks())
            .map(|rank| self.members(kind, step, rank))
            .enumerate()
            .filter_map(|(rank, members)| (members.first() == Some(&rank)).then_some(members))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_by_hosts() {
        let t = Topology { shards: 4, replicas: 2, hosts: 4 };
        assert!(t.fits());
        // A shard group of two hosts of two ranks.
        assert_eq!(t.groups(Kind::Shard, Step::Inner), [[0, 1], [2, 3], [4, 5], [6, 7]]);
        assert_eq!(t.groups(Kind::Shard, Step::Outer), [[0, 2], [1, 3], [4, 6], [5, 7]]);
        assert_eq!(t.groups(Kind::Replica, Step::Outer), [[0, 4], [1, 5], [2, 6], [3, 7]]);
        assert!(t.groups(Kind::Replica, Step::Inner).iter().all(|g| g.len() == 1));
        assert_eq!(t.groups(Kind::World, Step::Outer), [[0, 2, 4, 6], [1, 3, 5, 7]]);
        // Two shard groups on each host.
        let t = Topology { shards: 2, replicas: 4, hosts: 2 };
        assert!(t.fits());
        assert_eq!(t.groups(Kind::Shard, Step::Inner), [[0, 1], [2, 3], [4, 5], [6, 7]]);
        assert!(t.groups(Kind::Shard, Step::Outer).iter().all(|g| g.len() == 1));
        assert_eq!(t.groups(Kind::Replica, Step::Inner), [[0, 2], [1, 3], [4, 6], [5, 7]]);
        assert_eq!(t.groups(Kind::Replica, Step::Outer), [[0, 4], [1, 5], [2, 6], [3, 7]]);
        assert!(!Topology { shards: 4, replicas: 3, hosts: 2 }.fits());
        assert!(!Topology { shards: 2, replicas: 1, hosts: 4 }.fits());
    }

    #[test]
    fn the_two_steps_reach_every_member_once() {
        for (shards, replicas, hosts) in [(1, 1, 1), (4, 1, 2), (2, 4, 2), (8, 2, 4), (32, 8, 32), (3, 4, 2)]
        {
            let t = Topology { shards, replicas, hosts };
            assert!(t.fits());
            for kind in KINDS {
                for rank in 0..t.ranks() {
                    let mut reached: Vec<usize> = t
                        .members(kind, Step::Outer, rank)
                        .into_iter()
                        .flat_map(|other| t.members(kind, Step::Inner, other))
                        .collect();
                    reached.sort_unstable();
                    let whole = Topology { hosts: 1, ..t }.members(kind, Step::Inner, rank);
                    assert_eq!(reached, whole, "{kind:?} of {rank} in {t:?}");
                }
            }
        }
    }
}
