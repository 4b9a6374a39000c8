//! Assignment of ranks to groups. Hosts hold equal, consecutive ranges of ranks. A group that spans hosts
//! works in two steps, as in MiCS: its members on one host, and the members at the same position of each
//! host.

/// Distribution of ranks over groups and hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Ranks of a shard group.
    pub shards: usize,
    /// Number of shard groups.
    pub replicas: usize,
    /// Hosts; must divide the number of ranks.
    pub hosts: usize,
}

/// A kind of group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// All ranks.
    World,
    /// Ranks that share one copy of the parameters.
    Shard,
    /// Ranks that hold the same shard of each copy.
    Replica,
}

/// All kinds of groups.
pub const KINDS: [Kind; 3] = [Kind::World, Kind::Shard, Kind::Replica];

/// The two steps of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Members on one host.
    Inner,
    /// Members at one position of each host.
    Outer,
}

impl Topology {
    /// Returns the world size.
    pub fn ranks(&self) -> usize {
        self.shards * self.replicas
    }

    /// Returns the ranks per host.
    pub fn per_host(&self) -> usize {
        self.ranks() / self.hosts
    }

    /// Returns whether groups can work in two steps: each host holds whole shard groups, or each shard group
    /// whole hosts.
    pub fn fits_two_steps(&self) -> bool {
        let here = self.per_host();
        self.ranks().is_multiple_of(self.hosts)
            && (here.is_multiple_of(self.shards) || self.shards.is_multiple_of(here))
    }

    /// Returns a key that the members of a group have in common.
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

    /// Returns the ranks in the group of `rank`, in order.
    pub fn members(&self, kind: Kind, step: Step, rank: usize) -> Vec<usize> {
        let key = self.key(kind, step, rank);
        (0..self.ranks()).filter(|other| self.key(kind, step, *other) == key).collect()
    }

    /// Returns all groups of one step, ordered by their first rank.
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
        assert!(t.fits_two_steps());
        // A shard group of two hosts of two ranks.
        assert_eq!(t.groups(Kind::Shard, Step::Inner), [[0, 1], [2, 3], [4, 5], [6, 7]]);
        assert_eq!(t.groups(Kind::Shard, Step::Outer), [[0, 2], [1, 3], [4, 6], [5, 7]]);
        assert_eq!(t.groups(Kind::Replica, Step::Outer), [[0, 4], [1, 5], [2, 6], [3, 7]]);
        assert!(t.groups(Kind::Replica, Step::Inner).iter().all(|g| g.len() == 1));
        assert_eq!(t.groups(Kind::World, Step::Outer), [[0, 2, 4, 6], [1, 3, 5, 7]]);
        // Two shard groups on each host.
        let t = Topology { shards: 2, replicas: 4, hosts: 2 };
        assert!(t.fits_two_steps());
        assert_eq!(t.groups(Kind::Shard, Step::Inner), [[0, 1], [2, 3], [4, 5], [6, 7]]);
        assert!(t.groups(Kind::Shard, Step::Outer).iter().all(|g| g.len() == 1));
        assert_eq!(t.groups(Kind::Replica, Step::Inner), [[0, 2], [1, 3], [4, 6], [5, 7]]);
        assert_eq!(t.groups(Kind::Replica, Step::Outer), [[0, 4], [1, 5], [2, 6], [3, 7]]);
        assert!(!Topology { shards: 4, replicas: 3, hosts: 2 }.fits_two_steps());
        assert!(!Topology { shards: 2, replicas: 1, hosts: 4 }.fits_two_steps());
    }

    #[test]
    fn the_two_steps_reach_every_member_once() {
        for (shards, replicas, hosts) in [(1, 1, 1), (4, 1, 2), (2, 4, 2), (8, 2, 4), (32, 8, 32), (3, 4, 2)]
        {
            let t = Topology { shards, replicas, hosts };
            assert!(t.fits_two_steps());
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
