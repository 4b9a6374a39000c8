//! Pages of whole plans: well-formed, with everything drawn inside its picture, even for partial plans.

use super::{
    FrontLayout, Outcome, ParetoFront, PlotPoint, Point, RunnerUp, Runs, Scaling, pareto_front, report,
};
use crate::samples::{BROKEN, CUSTOM, FALCON, GPT2, GPTJ, LLAMA, ROBERTA, Sample, XGBOOST, sample};
use roxmltree::{Document, Node, ParsingOptions};
use trainc_ir::{Axis, Plan};
use trainc_predict::Interval;

fn page(sample: &Sample, scaling: &Scaling) -> String {
    report(&sample.subject(), &sample.document(), scaling)
}

/// Returns points with every outcome, up to 2^`most` nodes.
fn points(most: u32) -> Scaling {
    let runs = |nodes: u64| {
        let rate = 5_000.0 * (nodes as f64).powf(0.9);
        Outcome::Runs(Box::new(Runs {
            layout: "shard 8, micro-batch 1".to_owned(),
            tokens_per_second: rate,
            interval: Interval { low: rate / 1.3, high: rate * 1.3 },
            memory_bytes: 3e10,
            may_need_bytes: (nodes == 4).then_some(5e10),
            run_seconds: Some(1e7 / rate),
            cost_usd: Some(123_456.0 * nodes as f64 / rate),
            is_on_demand: false,
        }))
    };
    let outcome = |nodes: u64| match nodes {
        1 => Outcome::TooBig(9e10),
        2 => Outcome::Illegal("`shard-degree` 128 needs more".to_owned()),
        _ => runs(nodes),
    };
    let point = |nodes: u64| Point { nodes, gpus: nodes * 8, is_plan: nodes == 8, outcome: outcome(nodes) };
    Scaling::Points((0..=most).map(|power| point(1 << power)).collect())
}

fn sample_front() -> ParetoFront {
    let spot = |n: f64| PlotPoint { seconds: 3_600.0 * n, cost: 900.0 / n };
    let choice = |n: f64| FrontLayout {
        spot: Some(spot(n)),
        seconds: 3_600.0 * n,
        words: "8 × ml.p4d.24xlarge, shard 64, micro-batch 2 × 1 pass".to_owned(),
        sets: vec!["train.micro-batch=2".to_owned()],
        step_seconds: n,
        run_seconds: Some(3_600.0 * n),
        cost_usd: Some(900.0 / n),
        memory_bytes: Some(2e10),
        may_need_bytes: None,
    };
    ParetoFront {
        lost: vec![RunnerUp {
            words: "4 × ml.p4d.24xlarge, full-shard".to_owned(),
            why: "beaten by 2: 4.0 % slower".to_owned(),
        }],
        job: "a".to_owned(),
        manifest: "job.kdl".to_owned(),
        best: (1..12).map(|n| choice(f64::from(n))).collect(),
        beaten: (1..200).map(|n| PlotPoint { cost: 2_000.0, ..spot(f64::from(n) / 9.0) }).collect(),
        written: Some(PlotPoint { seconds: 9e3, cost: 1_500.0 }),
        looked_at: "of the 525 layouts looked at (nodes 1 and 2)".to_owned(),
        fit: 210,
        first_choice: 1,
        is_priced: true,
        is_on_demand: false,
    }
}

fn number(node: Node, name: &str) -> f64 {
    node.attribute(name).map_or(0.0, |text| text.parse().unwrap())
}

/// Parses a page and checks that everything is inside its picture, with the letters of a wide font.
#[track_caller]
fn check_page(html: &str) {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    let parsed =
        Document::parse_with_options(html, options).unwrap_or_else(|error| panic!("{error}\n{html}"));
    assert!(html.starts_with("<!DOCTYPE html>"), "{}", html.get(..80).unwrap());
    let all = || parsed.descendants().filter(Node::is_element);
    for node in all() {
        let name = node.tag_name().name();
        assert!(!matches!(name, "script" | "link" | "img" | "iframe" | "object" | "use" | "image"), "{name}");
        for attribute in node.attributes() {
            assert!(!matches!(attribute.name(), "href" | "src" | "style" | "srcset"), "{name} {attribute:?}");
            assert!(!attribute.name().starts_with("on"), "{name} {attribute:?}");
        }
    }
    for css in all().filter(|node| node.tag_name().name() == "style").filter_map(|node| node.text()) {
        assert_eq!(css.matches("url(").count(), css.matches("url(#").count());
        assert!(!css.contains("@import") && !css.contains("http"));
    }
    for svg in all().filter(|node| node.tag_name().name() == "svg" && node.has_attribute("viewBox")) {
        let frame: Vec<f64> =
            svg.attribute("viewBox").unwrap().split(' ').map(|part| part.parse().unwrap()).collect();
        let (wide, high) = (frame[2], frame[3]);
        assert!(svg.attribute("aria-label").is_some_and(|name| name.len() > 20));
        let inside = |left: f64, right: f64, top: f64, bottom: f64, what: &str| {
            let is = left >= -0.6 && right <= wide + 0.6 && top >= -0.6 && bottom <= high + 0.6;
            assert!(is, "{what}: {left}..{right} of {wide}, {top}..{bottom} of {high}");
        };
        for shape in svg.descendants().filter(Node::is_element) {
            let (x, y) = (number(shape, "x"), number(shape, "y"));
            match shape.tag_name().name() {
                "text" => {
                    let text = shape.text().unwrap_or_default();
                    let class = shape.attribute("class").unwrap_or_default();
                    let has = |word: &str| class.split(' ').any(|other| other == word);
                    let size = if has("tiny") {
                        10.0
                    } else if has("s") {
                        11.0
                    } else {
                        13.0
                    };
                    let letter = |c: char| if "fijlrtI.,:; '()".contains(c) { 0.36 } else { 0.62 };
                    let long = size * text.chars().map(letter).sum::<f64>();
                    let left = match shape.attribute("text-anchor") {
                        Some("middle") => x - long / 2.0,
                        Some("end") => x - long,
                        _ => x,
                    };
                    inside(left, left + long, y - 0.75 * size, y, text);
                }
                "rect" => {
                    let (w, h) = (number(shape, "width"), number(shape, "height"));
                    inside(x, x + w, y, y + h, shape.attribute("class").unwrap_or_default());
                }
                "line" => {
                    let (x2, y2) = (number(shape, "x2"), number(shape, "y2"));
                    let (x1, y1) = (number(shape, "x1"), number(shape, "y1"));
                    inside(x1.min(x2), x1.max(x2), y1.min(y2), y1.max(y2), "line");
                }
                "circle" => {
                    let (cx, cy, r) = (number(shape, "cx"), number(shape, "cy"), number(shape, "r"));
                    inside(cx - r, cx + r, cy - r, cy + r, "circle");
                }
                _ => {}
            }
        }
    }
}

#[test]
fn pages_are_whole_and_pictures_keep_their_edges() {
    for text in [GPT2, ROBERTA, GPTJ, LLAMA, FALCON, CUSTOM] {
        let sample = sample(text, &[]);
        for scaling in [points(4), points(13), points(0), Scaling::Unknown("one `node`".to_owned())] {
            check_page(&page(&sample, &scaling));
        }
    }
}

/// A job without a model has no picture of what is not predicted.
#[test]
fn a_built_in_algorithm_has_what_is_known() {
    let html = page(&sample(XGBOOST, &[]), &Scaling::Unknown("no model".to_owned()));
    check_page(&html);
    assert_eq!(html.to_lowercase().matches("not known").count(), 1, "{html}");
    for part in ["id=\"memory\"", "id=\"step\"", "id=\"mesh\"", "id=\"scaling\"", "<dt>throughput"] {
        assert!(!html.contains(part), "{part}");
    }
    assert!(html.contains("<dt>cost at most</dt>") && html.contains("s3://example-tables/churn/train/"));
}

/// The tile of the throughput has TFLOPS per GPU with and without recomputation, like the terminal.
#[test]
fn the_tile_of_the_rate_names_both_conventions() {
    let sample = sample(LLAMA, &[]);
    let document = sample.document();
    let page = page(&sample, &points(8));
    let words = crate::speed::tflops_line(&document, "GPU").unwrap();
    assert!(words.contains(" with recomputation, ") && words.contains(" without; MFU "), "{words}");
    assert!(page.contains(&format!("<dd class=\"under\">{words}</dd>")), "{words}");
}

/// Sums that exclude an unknown download are marked.
#[test]
fn sums_without_a_download_say_so() {
    let starter = include_str!("../../../../examples/starter/trainc.kdl");
    let known = page(&sample(LLAMA, &[]), &points(2));
    assert!(!known.contains("excluding the download"));
    let sample = sample(starter, &[]);
    assert!(sample.document().run.parts.download.is_none() && sample.document().run.seconds.is_some());
    let page = page(&sample, &points(2));
    for said in [
        "Time and cost are lower bounds: they exclude the download",
        "total, excluding the download",
        "start and checkpoints in addition to the steps, excluding the download",
    ] {
        assert!(page.contains(said), "{said}\n{page}");
    }
}

#[test]
fn a_search_is_a_page() {
    check_page(&pareto_front(&sample_front()));
    check_page(&pareto_front(&ParetoFront { is_priced: false, written: None, ..sample_front() }));
    check_page(&pareto_front(&ParetoFront { is_on_demand: true, ..sample_front() }));
    check_page(&pareto_front(&ParetoFront {
        best: sample_front().best.into_iter().take(1).collect(),
        beaten: Vec::new(),
        ..sample_front()
    }));
    // A layout without a price keeps its number, and one that may not fit its mark.
    let mut some = sample_front();
    if let Some(first) = some.best.first_mut() {
        (first.spot, first.cost_usd, first.may_need_bytes) = (None, None, Some(5e10));
    }
    let page = pareto_front(&some);
    check_page(&page);
    assert!(page.contains("These 11 are the best trade-offs") && page.contains("not known: 1."), "{page}");
    assert!(page.contains(">2: 8 × ml.p4d") && !page.contains(">1: 8 × ml.p4d"), "{page}");
    assert!(page.contains("up to 46.6 GiB: may not fit"), "{page}");
    assert!(page.contains("Runners-up") && page.contains("beaten by 2: 4.0 % slower"), "{page}");
    assert!(!pareto_front(&ParetoFront { lost: Vec::new(), ..sample_front() }).contains("Runners-up"));
    let none =
        pareto_front(&ParetoFront { best: Vec::new(), beaten: Vec::new(), written: None, ..sample_front() });
    check_page(&none);
    assert!(none.contains("No layout fits") && !none.contains("viewBox"));
}

/// Layouts that are far slower or dearer than those to choose from leave the picture as it is.
#[test]
fn far_layouts_are_not_drawn() {
    let near = pareto_front(&sample_front());
    let mut far = sample_front();
    far.beaten.push(PlotPoint { seconds: 3.6e6, cost: 5e6 });
    let drawn = pareto_front(&far);
    assert_eq!(drawn.matches("<circle").count(), near.matches("<circle").count());
    let said = " Far slower or dearer layouts are not drawn.";
    assert!(!near.contains(said));
    assert_eq!(drawn.replace(said, ""), near);
    // Times are in hours, as those of the fastest layouts.
    assert!(drawn.contains(" h</text>") && !drawn.contains(" d</text>"), "{drawn}");
}

/// A partial plan still gives a page.
#[test]
fn plans_of_which_little_is_known() {
    for text in ["job \"a\" {", "job \"empty\" {}", BROKEN] {
        check_page(&page(&sample(text, &[]), &Scaling::Unknown("errors".to_owned())));
    }
    let parts: [fn(&mut Plan); 8] = [
        |plan| plan.instance = None,
        |plan| plan.machine = None,
        |plan| plan.region = None,
        |plan| plan.model = None,
        |plan| plan.mesh = None,
        |plan| plan.batch = None,
        |plan| plan.fleet = trainc_ir::Fleet::Unreadable,
        |plan| plan.job.cluster = None,
    ];
    for part in parts {
        let mut sample = sample(FALCON, &[]);
        part(sample.compiled.plan.as_mut().unwrap());
        check_page(&page(&sample, &points(3)));
        *sample.compiled.prediction = trainc_predict::Prediction::default();
        let html = page(&sample, &points(3));
        check_page(&html);
        assert!(html.contains("is not known"), "{html}");
    }
}

/// Meshes from one GPU to the maximum.
#[test]
fn meshes_of_any_size() {
    for (nodes, per_node, shard) in [
        (1, 1, 1),
        (1, 4, 4),
        (1, 16, 4),
        (3, 8, 24),
        (64, 8, 8),
        (64, 8, 512),
        (2, 72, 144),
        (1 << 21, 8, 1 << 10),
        (1 << 24, 1, 1),
    ] {
        let mut sample = sample(CUSTOM, &[]);
        let order = [(Axis::Replica, nodes * per_node / shard), (Axis::Shard, shard)];
        sample.compiled.plan.as_mut().unwrap().mesh =
            Some(trainc_ir::mesh::Mesh::new(&trainc_engine::laws::SMP_V2, (nodes, per_node), &order, "test"));
        check_page(&page(&sample, &Scaling::Unknown("none".to_owned())));
    }
}

#[test]
fn insufficient_memory_is_reported_and_drawn() {
    let mut sample = sample(GPT2, &[]);
    let memory = sample.compiled.prediction.memory.as_mut().unwrap();
    memory.parts.activations += 4e10;
    memory.per_gpu_bytes += 4e10;
    (memory.interval.low, memory.interval.high) = (6e10, 9e10);
    memory.fits = Some(false);
    let html = page(&sample, &points(3));
    check_page(&html);
    assert!(html.contains("Does not fit: a GPU lacks") && html.contains("class=\"over\""), "{html}");
    assert!(!html.contains("The manifest allows it"), "{html}");
    // An error that an `allow` accepts is a note.
    let code = trainc_diag::find(&trainc_check::codes(), "T0326").unwrap();
    let span = sample.compiled.plan.as_ref().unwrap().job.span;
    let allowed = trainc_diag::Diagnostic::new(code, span, "it does not fit").allowed("it ran");
    sample.compiled.problems.push(allowed.severity(trainc_diag::Severity::Note));
    let html = page(&sample, &points(3));
    assert!(html.contains("Does not fit: a GPU lacks") && html.contains("The manifest allows it."), "{html}");
}

/// Text has a contrast of at least 4.5 to 1 (WCAG 2.2, 1.4.3) on every background, in light and dark mode.
#[test]
fn letters_stand_out() {
    let css = include_str!("../../templates/report/page.css");
    let channel = |hex: &str, at: usize| f64::from(u8::from_str_radix(&hex[at..at + 2], 16).unwrap()) / 255.0;
    let linear = |n: f64| if n <= 0.04045 { n / 12.92 } else { ((n + 0.055) / 1.055).powf(2.4) };
    let light = |hex: &str| {
        let [r, g, b] = [1, 3, 5].map(|at| linear(channel(hex, at)));
        0.2126 * r + 0.7152 * g + 0.0722 * b
    };
    let contrast = |a: &str, b: &str| {
        let (a, b) = (light(a), light(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    };
    let modes: Vec<&str> = css.split(":root {").skip(1).take(2).collect();
    assert_eq!(modes.len(), 2);
    for mode in modes {
        let value = |name: &str| {
            let from = mode.find(&format!("--{name}: ")).unwrap() + name.len() + 4;
            &mode[from..from + 7]
        };
        for ground in ["page", "soft"] {
            for letters in ["text", "muted", "good", "close", "bad", "accent"] {
                let found = contrast(value(letters), value(ground));
                assert!(found >= 4.5, "{letters} on {ground}: {found}");
            }
        }
    }
    let colours: Vec<&str> =
        css.match_indices("background-color: #").map(|(at, _)| &css[at + 18..at + 25]).collect();
    assert_eq!(colours.len(), 8);
    for colour in colours {
        assert!(contrast("#16191f", colour) >= 4.5, "{colour}");
    }
}
