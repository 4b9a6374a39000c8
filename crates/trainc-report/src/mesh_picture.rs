//! The mesh as a picture: a row for each node, a cell for each GPU, labelled by its coordinates on every
//! axis.
//!
//! Of nodes that continue the one above, only the last is drawn: `to 15`. Others are left out and counted.

use trainc_diag::text;
use trainc_ir::{Axis, Mesh};

/// The most nodes that are compared one by one; of more, only the first and the last are drawn.
const MOST_NODES: u64 = 4_096;
/// The most GPUs of a node that are drawn.
const MOST_CELLS: u64 = 64;
/// The prefix of a replica's name.
const REPLICA: &str = "replica ";
/// The most replicas that are named by letters.
const LETTERS: u64 = 26;

/// A piece of a line, and the group by which it may be coloured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// The text.
    pub(super) text: String,
    /// Pieces of a group have the same colour.
    pub(super) group: Option<u64>,
}

/// The most nodes that are all drawn.
const ALL_NODES: u64 = 4;
/// The most blocks that are all drawn; of more, the first two and the last.
const ALL_BLOCKS: usize = 3;

/// A row: a node, or a gap of so many nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PictureRow {
    /// `word` is `node`, or `to` for the last of several nodes that continue the row above.
    Node {
        word: &'static str,
        node: u64,
        cells: Vec<Piece>,
        note: String,
    },
    Gap(u64),
}

/// The explanation of a cell.
struct Legend {
    /// All axes of a degree above 1.
    full: String,
    /// Without the replica, which the rows name.
    short: Option<String>,
}

/// Returns the lines of the picture, at most `columns` wide if possible, and the explanation of a cell, which
/// is empty if the last row has it.
pub(super) fn draw(mesh: &Mesh, columns: usize, unicode: bool) -> (Vec<Vec<Piece>>, String) {
    let picture = Cells { mesh };
    let rows = picture.rows();
    let digits = mesh.nodes.saturating_sub(1).to_string().len();
    let wide = rows.iter().flat_map(|row| match row {
        PictureRow::Node { cells, .. } => cells.iter().map(|cell| cell.text.len()).collect(),
        PictureRow::Gap(_) => Vec::new(),
    });
    let cell = wide.max().unwrap_or(1);
    let (bar, gap) = if unicode { ("│", "⋮") } else { ("|", ":") };
    let frame = "node ".len() + digits + 1 + 2;
    let room = columns.saturating_sub(frame + 1) / (cell + 1);
    let mut legend = picture.legend();
    let last = rows.len().saturating_sub(1);
    // Whether the rows of the current block name their replica.
    let mut named = false;
    let lines = rows
        .into_iter()
        .enumerate()
        .map(|(at, row)| match row {
            PictureRow::Gap(nodes) => {
                vec![plain(format!("{:>1$} {gap} {2} more nodes", "", digits + 5, text::group_digits(nodes)))]
            }
            PictureRow::Node { word, node, cells, note } => {
                let mut line = vec![plain(format!("{word:>4} {node:>digits$} {bar}"))];
                let mut used = frame;
                for piece in elided(cells, mesh.cells_per_node(), room) {
                    let text = format!(" {:>cell$}", piece.text);
                    used += text.len();
                    line.push(Piece { text, group: piece.group });
                }
                line.push(plain(format!(" {bar}")));
                used += 1;
                let fits = |text: &str| !text.is_empty() && used + 2 + text.len() <= columns;
                let explanation = if at == last {
                    let short = legend.short.as_ref().filter(|_| named && note.is_empty());
                    [Some(&legend.full), short].into_iter().flatten().find(|text| fits(text)).cloned()
                } else {
                    None
                };
                if !note.is_empty() {
                    named = note.starts_with(REPLICA) && fits(&note);
                }
                if let Some(text) = explanation {
                    line.push(plain(format!("  {text}")));
                    legend.full.clear();
                } else if fits(&note) {
                    line.push(plain(format!("  {note}")));
                }
                line
            }
        })
        .collect();
    (lines, legend.full)
}

/// Returns the position of a GPU's rank in the mesh; `None` for a GPU without a process.
pub(super) fn rank_position(mesh: &Mesh, node: u64, gpu: u64) -> Option<RankPosition> {
    let cells = Cells { mesh };
    let rank = cells.rank(node, gpu)?;
    Some(RankPosition {
        replica: (mesh.replicas.value > 1).then(|| cells.replica_name(rank)),
        place: cells.axes().map(|axis| mesh.coordinate(axis, rank).to_string()).collect::<Vec<_>>().join("."),
        group: cells.cell(node, gpu).group.unwrap_or(0),
    })
}

/// Returns the axes of [`RankPosition::place`], in its order.
pub(super) fn axes(mesh: &Mesh) -> Vec<Axis> {
    Cells { mesh }.axes().collect()
}

/// The position of a rank in the mesh.
pub(super) struct RankPosition {
    /// The name of its replica, if there are several.
    pub(super) replica: Option<String>,
    /// Its coordinates on the other axes, as `3.0`; empty if there are none.
    pub(super) place: String,
    /// Ranks of a group have the same colour.
    pub(super) group: u64,
}

fn plain(text: String) -> Piece {
    Piece { text, group: None }
}

/// Returns the cells that fit, always with the last of the node.
fn elided(mut cells: Vec<Piece>, gpus: u64, room: usize) -> Vec<Piece> {
    let hidden = gpus > cells.len() as u64;
    if cells.len() <= room.max(1) && !hidden {
        return cells;
    }
    let last = cells.pop();
    cells.truncate(room.saturating_sub(2).max(1));
    cells.push(plain("…".to_owned()));
    cells.extend(last);
    cells
}

struct Cells<'a> {
    mesh: &'a Mesh,
}

impl Cells<'_> {
    /// Returns the rank on a GPU; `None` for a GPU without a process.
    fn rank(&self, node: u64, gpu: u64) -> Option<u64> {
        let per_node = self.mesh.ranks_per_node();
        if self.mesh.law.is_script() {
            return Some(node);
        }
        (gpu < per_node).then(|| node * per_node + gpu)
    }

    /// Returns the GPUs of a node that are drawn: the first ones and the last.
    fn gpus(&self) -> impl Iterator<Item = u64> {
        let all = self.mesh.cells_per_node();
        let first = all.min(MOST_CELLS);
        (0..first).chain((all > first).then(|| all - 1))
    }

    /// Returns the name of a rank's replica: a letter, or a number if there are too many.
    fn replica_name(&self, rank: u64) -> String {
        let replica = self.mesh.coordinate(Axis::Replica, rank);
        let letter = u8::try_from(replica)
            .ok()
            .filter(|_| self.mesh.replicas.value <= LETTERS)
            .map(|n| char::from(b'A' + n));
        letter.map_or_else(|| replica.to_string(), |letter| letter.to_string())
    }

    /// Returns the axes of a degree above 1, other than the replica's.
    fn axes(&self) -> impl Iterator<Item = Axis> {
        const AXES: [Axis; 5] = [Axis::Pipeline, Axis::Shard, Axis::Context, Axis::Ulysses, Axis::Tensor];
        let is_factor = |axis: &Axis| self.mesh.law.inside(*axis).is_none();
        AXES.into_iter().filter(is_factor).filter(|axis| self.mesh.degree(*axis) > 1)
    }

    fn label(&self, rank: u64) -> String {
        let parts: Vec<String> =
            self.axes().map(|axis| self.mesh.coordinate(axis, rank).to_string()).collect();
        let many = self.mesh.replicas.value > 1;
        match (many, parts.is_empty()) {
            (true, true) => self.replica_name(rank),
            (false, true) => "A".to_owned(),
            (false, false) => parts.join("."),
            (true, false) if self.mesh.replicas.value <= LETTERS => {
                format!("{}{}", self.replica_name(rank), parts.join("."))
            }
            (true, false) => format!("{}.{}", self.replica_name(rank), parts.join(".")),
        }
    }

    fn cell(&self, node: u64, gpu: u64) -> Piece {
        match self.rank(node, gpu) {
            Some(rank) => {
                let axis = if self.mesh.replicas.value > 1 { Axis::Replica } else { Axis::Pipeline };
                Piece { text: self.label(rank), group: Some(self.mesh.coordinate(axis, rank)) }
            }
            None => plain("-".to_owned()),
        }
    }

    /// Returns replica and stage of a node's ranks: consecutive nodes with the same key form a block.
    fn block_key(&self, node: u64) -> Vec<(u64, u64)> {
        self.gpus()
            .filter_map(|gpu| self.rank(node, gpu))
            .map(|rank| {
                (self.mesh.coordinate(Axis::Replica, rank), self.mesh.coordinate(Axis::Pipeline, rank))
            })
            .collect()
    }

    fn rows(&self) -> Vec<PictureRow> {
        let nodes = self.mesh.nodes;
        if nodes == 0 || self.mesh.gpus_per_node == 0 {
            return Vec::new();
        }
        let blocks = if nodes > MOST_NODES { vec![(0, nodes - 1)] } else { self.blocks() };
        let ends = |(first, last): &(u64, u64)| [*first, *last];
        let mut wanted: Vec<u64> = match blocks.as_slice() {
            _ if nodes <= ALL_NODES => (0..nodes).collect(),
            [one, two, .., end] if blocks.len() > ALL_BLOCKS => {
                [one, two, end].into_iter().flat_map(ends).collect()
            }
            few => few.iter().flat_map(ends).collect(),
        };
        wanted.dedup();
        let mut rows = Vec::new();
        let mut next = 0;
        for node in wanted {
            // The last node of a block represents those between it and the first.
            let goes_on = blocks.iter().any(|(first, last)| *last == node && *first < next && next < node);
            match if goes_on { 0 } else { node.saturating_sub(next) } {
                0 => {}
                1 => rows.push(self.row("node", next, &blocks)),
                gap => rows.push(PictureRow::Gap(gap)),
            }
            rows.push(self.row(if goes_on { "to" } else { "node" }, node, &blocks));
            next = node + 1;
        }
        rows
    }

    fn row(&self, word: &'static str, node: u64, blocks: &[(u64, u64)]) -> PictureRow {
        let cells = self.gpus().map(|gpu| self.cell(node, gpu)).collect();
        let note = blocks
            .iter()
            .find(|(first, _)| *first == node)
            .map(|(first, _)| self.block_note(*first))
            .unwrap_or_default();
        PictureRow::Node { word, node, cells, note }
    }

    /// Returns the first and last node of each block.
    fn blocks(&self) -> Vec<(u64, u64)> {
        let mut out: Vec<(u64, u64)> = Vec::new();
        let mut before = None;
        for node in 0..self.mesh.nodes {
            let key = self.block_key(node);
            match out.last_mut() {
                Some(last) if before.as_ref() == Some(&key) => last.1 = node,
                _ => out.push((node, node)),
            }
            before = Some(key);
        }
        out
    }

    /// Returns replica and stage of a block, if all its ranks share them.
    fn block_note(&self, first: u64) -> String {
        let key = self.block_key(first);
        let Some(one) = key.first() else { return String::new() };
        let mut what = Vec::new();
        if self.mesh.replicas.value > 1
            && self.mesh.nodes <= MOST_NODES
            && key.iter().all(|other| other.0 == one.0)
        {
            what.push(format!(
                "{REPLICA}{}",
                self.rank(first, 0).map(|rank| self.replica_name(rank)).unwrap_or_default()
            ));
        }
        if self.mesh.pipeline_degree.value > 1
            && self.mesh.nodes <= MOST_NODES
            && key.iter().all(|other| other.1 == one.1)
        {
            what.push(format!("stage {}", one.1));
        }
        what.join(", ")
    }

    /// Explains the last cell.
    fn legend(&self) -> Legend {
        let only = |full: String| Legend { full, short: None };
        let last = self.mesh.nodes.saturating_sub(1);
        let gpu = self.mesh.ranks_per_node().saturating_sub(1);
        let Some(rank) = self.rank(last, gpu) else { return only(String::new()) };
        let mut words = Vec::new();
        if self.mesh.replicas.value > 1 {
            words.push(format!("{REPLICA}{}", self.replica_name(rank)));
        }
        for axis in self.axes() {
            let word = match axis {
                Axis::Pipeline if self.mesh.law.is_device_map() => "layers of GPU",
                Axis::Pipeline => "stage",
                Axis::Shard => "shard",
                Axis::Tensor => "tensor rank",
                Axis::Replica => "replica",
                Axis::Context => "context rank",
                Axis::Ulysses => "sequence rank",
                Axis::Expert => "expert rank",
            };
            words.push(format!("{word} {}", self.mesh.coordinate(axis, rank)));
        }
        if words.is_empty() {
            let holder = if self.mesh.gpus_per_node > 0 { "accelerator" } else { "process" };
            return only(format!("A: one {holder} holds the whole model"));
        }
        if self.axes().next().is_none() {
            let name = if self.mesh.replicas.value <= LETTERS { "letter" } else { "number" };
            return only(format!("one {name} per replica"));
        }
        let cell = self.label(rank);
        let short =
            words.iter().filter(|word| !word.starts_with(REPLICA)).cloned().collect::<Vec<_>>().join(", ");
        Legend { full: format!("{cell}: {}", words.join(", ")), short: Some(format!("{cell}: {short}")) }
    }
}
