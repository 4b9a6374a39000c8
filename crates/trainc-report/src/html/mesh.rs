//! The mesh: a box for each node, a cell for each GPU, coloured by replica (or stage), labelled by its other
//! coordinates.

use super::axis::compact;
use super::page::{Cell, Picture, Section, Table, text_column};
use super::svg::{Anchor, SMALL, Svg, width};
use crate::json::Document;
use crate::mesh_picture::{self, RankPosition};
use crate::{links, sections};
use trainc_diag::text;
use trainc_ir::{Axis, Mesh, Plan};

/// The most nodes that are drawn; of more, the first ones and the last.
const MOST_NODES: u64 = 64;
/// The most GPUs of a node that are drawn; of more, the first ones and the last.
const MOST_GPUS: u64 = 16;
/// Height of the letters in cells.
const LETTERS: f64 = 10.0;
/// Gap between nodes.
const GAP: f64 = 10.0;
/// Gap between a node's frame and its cells.
const PAD: f64 = 4.0;
/// Room for a node's name above its frame.
const NAME: f64 = 15.0;
/// Widest cell.
const WIDEST: f64 = 104.0;
/// Colours of neighbouring groups.
const COLOURS: [&str; 8] = ["c1", "c5", "c3", "c6", "c2", "c4", "c7", "c8"];

/// The layout of nodes and cells on a page.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Grid {
    /// Nodes side by side.
    columns: u64,
    /// Cells of a node side by side, and rows of them.
    across: u64,
    rows: u64,
    cell: f64,
    height: f64,
}

impl Grid {
    /// Places as many nodes side by side as the width of the cell labels allows.
    fn new(nodes: u64, gpus: u64, need: f64, wide: f64) -> Self {
        let across = if nodes > 8 { gpus.min(4) } else { gpus.min(8) }.max(1);
        let cell = |columns: u64| {
            let frames = columns as f64 * 2.0 * PAD + (columns - 1) as f64 * GAP;
            ((wide - 2.0 - frames) / (columns * across) as f64).min(WIDEST)
        };
        // Powers of two, so that the ends of shard groups fall on ends of lines.
        let columns = (0..7)
            .map(|power| 1_u64 << power)
            .take_while(|n| *n == 1 || *n <= nodes && cell(*n) >= need)
            .last();
        let columns = columns.unwrap_or(1);
        let height = if nodes <= 2 { 34.0 } else { 20.0 };
        Self { columns, across, rows: gpus.div_ceil(across), cell: cell(columns), height }
    }

    fn node_width(&self) -> f64 {
        self.across as f64 * self.cell + 2.0 * PAD
    }

    fn node_height(&self) -> f64 {
        NAME + self.rows as f64 * self.height + 2.0 * PAD
    }

    /// Returns left and upper edge of the box at a place in reading order.
    fn origin(&self, place: u64) -> (f64, f64) {
        let (column, line) = (place % self.columns, place / self.columns);
        (1.0 + column as f64 * (self.node_width() + GAP), line as f64 * (self.node_height() + GAP))
    }

    /// Returns the height of so many boxes.
    fn total_height(&self, nodes: u64) -> f64 {
        self.origin(nodes.saturating_sub(1)).1 + self.node_height() + 1.0
    }
}

/// Returns the first ones of `all` and the last, `most` in total, with `None` for those left out.
fn elide_middle(all: u64, most: u64) -> Vec<Option<u64>> {
    if all <= most {
        return (0..all).map(Some).collect();
    }
    (0..most - 2).map(Some).chain([None, Some(all - 1)]).collect()
}

/// Returns the section.
pub(super) fn section(plan: &Plan, document: &Document) -> Section {
    let mut section = Section { id: "mesh", title: "The mesh", ..Section::default() };
    let Some(mesh) = &plan.mesh else {
        section.text.push("The mesh is not known.".to_owned());
        return section;
    };
    section.text.push(sections::mesh(plan, mesh) + ".");
    section.pictures.push(Picture::new(|width| draw(plan, mesh, width)));
    section.caption = legend(plan, mesh);
    let mut rows: Vec<Vec<Cell>> =
        links::lines(plan, mesh).into_iter().map(|(axis, line)| vec![axis.into(), line.into()]).collect();
    rows.extend(links::describe_layer_split(plan, mesh).map(|line| vec!["layers".into(), line.into()]));
    rows.extend(sections::nodes_rule(plan, document, mesh).map(|line| vec!["rule".into(), line.into()]));
    if !rows.is_empty() {
        let head = vec![text_column("axis"), text_column("groups and links")];
        section.tables.push(Table { summary: None, head, rows, has_sum: false, shape: "" });
    }
    section
}

/// Explains the cells.
fn legend(plan: &Plan, mesh: &Mesh) -> String {
    let gpu = gpu_word(plan);
    let axes: Vec<&str> = mesh_picture::axes(mesh)
        .into_iter()
        .map(|axis| match axis {
            Axis::Pipeline if mesh.law.is_device_map() => "part of the layers",
            Axis::Pipeline => "stage",
            Axis::Shard => "shard",
            Axis::Tensor => "tensor rank",
            Axis::Replica => "replica",
            Axis::Context => "context rank",
            Axis::Ulysses => "sequence rank",
            Axis::Expert => "expert rank",
        })
        .collect();
    let mut out = format!("Each box is a node, each cell a {gpu}.");
    if mesh.replicas.value > 1 {
        out += " Each replica, a full copy of the model state, has its own colour and name.";
    } else if axes.first().is_some_and(|word| matches!(*word, "stage" | "part of the layers")) {
        out += &format!(" Each {} has its own colour.", axes.first().copied().unwrap_or_default());
    }
    let colours = COLOURS.len() as u64;
    let groups = if mesh.replicas.value > 1 { mesh.replicas.value } else { mesh.pipeline_degree.value };
    if groups > colours {
        out += &format!(" Colours repeat after {colours} groups.");
    }
    match axes.as_slice() {
        [] => {}
        [one] => out += &format!(" The number in a cell is its {one}."),
        several => out += &format!(" The numbers in a cell are its {}.", several.join(", then its ")),
    }
    if mesh.ranks_per_node() < mesh.gpus_per_node && !mesh.law.is_script() {
        out += " Empty cells have no process.";
    }
    out
}

/// Returns the noun for a cell.
fn gpu_word(plan: &Plan) -> &'static str {
    plan.rank_noun()
}

fn draw(plan: &Plan, mesh: &Mesh, wide: f64) -> String {
    let nodes = elide_middle(mesh.nodes, MOST_NODES);
    let gpus = elide_middle(mesh.cells_per_node(), MOST_GPUS);
    let last = mesh_picture::rank_position(
        mesh,
        mesh.nodes.saturating_sub(1),
        mesh.ranks_per_node().saturating_sub(1),
    );
    let longest = last.map_or(0.0, |last| {
        let whole = width(&last.place, LETTERS);
        // Cells have the replica's name only if a node holds several.
        if has_one_replica_per_node(mesh) {
            whole
        } else {
            whole + width(&last.replica.unwrap_or_default(), LETTERS)
        }
    });
    let grid = Grid::new(nodes.len() as u64, gpus.len() as u64, (longest + 5.0).max(13.0), wide);
    let mut svg = Svg::new(wide, grid.total_height(nodes.len() as u64));
    for (place, node) in (0..).zip(&nodes) {
        let (x, y) = grid.origin(place);
        if let Some(node) = node {
            draw_node(&mut svg, mesh, *node, &gpus, &grid, (x, y));
        } else {
            let hidden = compact((mesh.nodes - (nodes.len() as u64 - 1)) as f64);
            svg.text("s m", Anchor::Start, x, y + NAME - 4.0, &format!("… {hidden} more"));
        }
    }
    let name = format!(
        "{} of {} {}s: {}",
        text::count(mesh.nodes, "node"),
        mesh.cells_per_node(),
        gpu_word(plan),
        sections::mesh(plan, mesh)
    );
    svg.finish(&name)
}

/// Returns whether every node holds ranks of a single replica.
fn has_one_replica_per_node(mesh: &Mesh) -> bool {
    mesh.replicas.value <= 1
        || (0..mesh.nodes.min(MOST_NODES)).all(|node| {
            let on = |gpu| mesh_picture::rank_position(mesh, node, gpu).and_then(|position| position.replica);
            let last = mesh.ranks_per_node().saturating_sub(1);
            (0..=last.min(MOST_GPUS)).all(|gpu| on(gpu) == on(0)) && on(last) == on(0)
        })
}

fn draw_node(svg: &mut Svg, mesh: &Mesh, node: u64, gpus: &[Option<u64>], grid: &Grid, (x, y): (f64, f64)) {
    let positions: Vec<Option<RankPosition>> =
        gpus.iter().map(|gpu| gpu.and_then(|gpu| mesh_picture::rank_position(mesh, node, gpu))).collect();
    let replica = positions.iter().flatten().next().and_then(|position| position.replica.clone());
    let is_one = positions.iter().flatten().all(|position| position.replica == replica);
    let name = match replica.filter(|_| is_one) {
        Some(replica) => format!("node {node} · {replica}"),
        None => format!("node {node}"),
    };
    // The longest that fits: the whole name, without `node`, without the replica.
    let number = node.to_string();
    let names = [name.as_str(), name.trim_start_matches("node "), &number];
    let fitting = names.into_iter().find(|name| width(name, SMALL) <= grid.node_width() + GAP / 2.0);
    svg.text("s m", Anchor::Start, x, y + NAME - 4.0, fitting.unwrap_or_default());
    let top = y + NAME;
    svg.rect("node", x, top, grid.node_width(), grid.node_height() - NAME);
    for ((at, gpu), position) in (0_u64..).zip(gpus).zip(&positions) {
        let left = x + PAD + (at % grid.across) as f64 * grid.cell;
        let upper = top + PAD + (at / grid.across) as f64 * grid.height;
        let (class, text) = match (gpu, position) {
            (Some(_), Some(position)) => (colour(position.group), label(position, is_one)),
            (Some(_), None) => ("idle", String::new()),
            (None, _) => ("", "…".to_owned()),
        };
        if !class.is_empty() {
            svg.rect(class, left + 0.5, upper + 0.5, grid.cell - 1.0, grid.height - 1.0);
        }
        let whole = format!("{} {text}", axis_word(mesh));
        let middle = (left + grid.cell / 2.0, upper + grid.height / 2.0);
        if position.is_some() && is_one && grid.height > 30.0 && width(&whole, SMALL) + 6.0 <= grid.cell {
            svg.text("on s", Anchor::Middle, middle.0, middle.1 + 4.0, &whole);
        } else if !text.is_empty() && width(&text, LETTERS) <= grid.cell {
            let class = if class.is_empty() { "tiny" } else { "on tiny" };
            svg.text(class, Anchor::Middle, middle.0, middle.1 + 3.5, &text);
        }
    }
}

/// Returns the word before the number of a cell, if there is room.
fn axis_word(mesh: &Mesh) -> &'static str {
    match mesh_picture::axes(mesh).as_slice() {
        [] => "replica",
        [Axis::Pipeline] if mesh.law.is_device_map() => "part",
        [Axis::Pipeline] => "stage",
        [Axis::Shard] => "shard",
        [Axis::Tensor] => "tensor",
        _ => "",
    }
}

fn colour(group: u64) -> &'static str {
    let at = usize::try_from(group % COLOURS.len() as u64).unwrap_or(0);
    COLOURS.get(at).copied().unwrap_or("c1")
}

/// Returns the label of a cell, with the replica if the node's name lacks it.
fn label(position: &RankPosition, is_one: bool) -> String {
    match (&position.replica, position.place.is_empty()) {
        (Some(replica), true) => replica.clone(),
        (Some(replica), false) if !is_one => format!("{replica}{}", position.place),
        _ => position.place.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainc_engine::laws::SMP_V2;

    #[test]
    fn frames_stay_on_the_page_and_apart() {
        for wide in [372.0, 880.0] {
            for (nodes, gpus, need) in
                [(1, 1, 13.0), (1, 4, 13.0), (32, 8, 24.0), (64, 8, 30.0), (64, 16, 40.0), (3, 8, 13.0)]
            {
                let grid = Grid::new(nodes, gpus, need, wide);
                let right = grid.origin(grid.columns - 1).0 + grid.node_width();
                assert!(right <= wide, "{nodes} × {gpus} on {wide}: {grid:?}");
                assert!(grid.columns == 1 || grid.cell >= need);
                assert!(grid.columns <= nodes && grid.across * grid.rows >= gpus);
            }
        }
    }

    #[test]
    fn of_many_nodes_the_first_and_the_last_are_shown() {
        assert_eq!(elide_middle(3, 64), [Some(0), Some(1), Some(2)]);
        let many = elide_middle(4_096, 64);
        assert_eq!((many.len(), many[61], many[62], many[63]), (64, Some(61), None, Some(4_095)));
    }

    #[test]
    fn replicas_on_one_node_are_named_in_cells() {
        let apart = Mesh::new(&SMP_V2, (4, 8), &[(Axis::Replica, 4), (Axis::Shard, 8)], "test");
        assert!(has_one_replica_per_node(&apart));
        let mixed =
            Mesh::new(&SMP_V2, (1, 8), &[(Axis::Replica, 2), (Axis::Pipeline, 2), (Axis::Tensor, 2)], "test");
        assert!(!has_one_replica_per_node(&mixed));
        assert_eq!(label(&mesh_picture::rank_position(&mixed, 0, 7).unwrap(), false), "B1.1");
        assert_eq!(label(&mesh_picture::rank_position(&apart, 2, 5).unwrap(), true), "5");
    }
}
