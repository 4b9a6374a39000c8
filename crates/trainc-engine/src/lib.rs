//! The training engines, each in one place: two lists of rows, whose types are in [`trainc_ir::engine`].
//!
//! A *front* is how the manifest names an engine, what starts its ranks, and the versions that it needs. A
//! *law* is how its degrees arrange the ranks, what is sharded, and what the cost model and the search know
//! of it. A job has one of each, bound when its image is known. Other crates ask the two rows and know no
//! engine by name. What a row cannot say is a function in the same file; facts with source and date are in
//! `crates/trainc-catalog/src/data/engines/`.
//!
//! A new engine is a file in `fronts/`, a file in `laws/` if its law is new, and a line in the list of
//! either.

pub mod files;
pub mod fronts;
pub mod laws;
pub mod smp;
pub mod write;

use trainc_catalog::support;
use trainc_ir::engine::Front;
use trainc_ir::hardware::Instance;
use trainc_ir::{Engine, ForeignFile, Image, Job, ProgramVersion};

/// Returns the engine with a name of the language; its generation is not known yet.
pub fn find(word: &str) -> Option<Engine> {
    fronts::ALL.iter().find(|front| front.word == word).map(|front| Engine::new(front))
}

/// Returns the engine of a job with the law that the job chooses; its generation is not known yet.
pub fn of_job(job: &Job) -> Option<Engine> {
    let parallel = job.parallel.as_ref()?;
    let engine = find(parallel.engine.get()?.as_str())?;
    Some(Engine::by_strategy(engine.front, Some(parallel)))
}

/// Returns the engine of a job with the law that its files select, or else its node.
pub fn bind(job: &Job, files: &[ForeignFile], programs: &[ProgramVersion]) -> Option<Engine> {
    let engine = of_job(job)?;
    let law = files.iter().find_map(|file| files::law(file, programs));
    let named = law.and_then(|name| engine.front.law_named(name));
    Some(named.map_or(engine, |law| Engine { law, ..engine }))
}

/// Returns true if trainc's own worker runs in place of a program.
pub fn runs_worker(job: &Job) -> bool {
    of_job(job).is_some_and(|engine| !engine.front.runs_program)
}

/// Returns the engine with the generation that an image contains.
pub fn in_image(engine: Engine, family: &str, pytorch: Option<&str>) -> Engine {
    (engine.front.in_image)(family, pytorch).map_or(engine, Engine::new)
}

/// Returns true if the newest generation of the engine has images of its own.
pub fn has_own_images(engine: Engine) -> bool {
    let mut generations = fronts::ALL.iter().filter(|front| front.word == engine.front.word);
    generations.next_back().is_some_and(|front| front.image_family.is_some())
}

/// Returns the engine that a launcher's word belongs to.
pub fn with_launcher(word: &str) -> Option<Engine> {
    fronts::ALL.iter().find(|front| front.takes_launcher(word)).map(|front| Engine::new(front))
}

/// Returns the version of the engine's library in the image, if its parameters depend on it and the
/// catalogue lists it.
pub fn library_version(engine: Engine, image: &Image) -> Option<String> {
    let pytorch = image.pytorch.as_deref().filter(|_| engine.front.has_versioned_parameters)?;
    engine.front.libraries.iter().find_map(|library| Some(support::library(library, pytorch)?.version))
}

/// Returns true if an image with this PyTorch has a library of the front that supports the instance type.
pub fn has_library(front: &Front, pytorch: &str, instance: Option<&Instance>) -> bool {
    let runs_on = |library: &str| {
        let supported = support::library_support(library).map(|row| row.instances).unwrap_or_default();
        instance.is_none_or(|row| supported.is_empty() || supported.contains(&row.name))
    };
    front.libraries.iter().any(|library| support::library(library, pytorch).is_some() && runs_on(library))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainc_ir::Axis;
    use trainc_ir::engine::Order;
    use trainc_language::nodes::{ENGINE_NAMES, JOB_CHILDREN, engines_of};
    use trainc_language::spec::Ty;

    #[test]
    fn the_language_names_the_fronts() {
        let mut words: Vec<&str> = fronts::ALL.iter().map(|front| front.word).collect();
        words.dedup();
        assert_eq!(words, ENGINE_NAMES);
    }

    /// The language has a node for each axis whose degree the law of an engine lets the manifest set, and
    /// for no other.
    #[test]
    fn nodes_of_degrees_are_those_of_the_laws() {
        let parallel = JOB_CHILDREN.iter().find(|spec| spec.name == "parallel").unwrap();
        for axis in Axis::ALL {
            let spec = parallel.children.iter().find(|spec| spec.name == axis.node()).unwrap();
            let takes = |front: &&&Front| front.laws.iter().any(|law| law.axes().any(|one| one == axis));
            let mut words: Vec<&str> = fronts::ALL.iter().filter(takes).map(|front| front.word).collect();
            words.dedup();
            assert_eq!(engines_of(spec).unwrap(), words, "{}", spec.name);
        }
    }

    /// The language has the strategies of the laws, each for the engines that may have such a law.
    #[test]
    fn strategies_are_those_of_the_laws() {
        let parallel = JOB_CHILDREN.iter().find(|spec| spec.name == "parallel").unwrap();
        let spec = parallel.children.iter().find(|spec| spec.name == "strategy").unwrap();
        let mut words: Vec<&str> = fronts::ALL.iter().flat_map(|front| front.strategies()).collect();
        words.sort_unstable();
        words.dedup();
        let Ty::Word(known) = spec.args[0].ty else { panic!() };
        let mut known = known.to_vec();
        known.sort_unstable();
        assert_eq!(known, words);
        let takes = |front: &&&Front| front.strategies().next().is_some();
        let engines: Vec<&str> = fronts::ALL.iter().filter(takes).map(|front| front.word).collect();
        assert_eq!(engines_of(spec).unwrap(), engines);
    }

    #[test]
    fn libraries_are_in_the_catalogue() {
        for library in fronts::ALL.iter().flat_map(|front| front.libraries) {
            assert!(support::library_support(library).is_some(), "{library}");
        }
    }

    /// An axis of the mesh is a factor or a part of one, and the order has the replicas and all factors.
    #[test]
    fn laws_are_whole() {
        for law in laws::ALL {
            let factors: Vec<Axis> = law.factors.iter().map(|factor| factor.axis).collect();
            for inside in law.inside {
                assert!(!factors.contains(&inside.degree.axis), "{}", law.name);
                assert!(inside.of.iter().all(|axis| factors.contains(axis)), "{}", law.name);
                assert!(inside.whole.iter().all(|axis| inside.of.contains(axis)), "{}", law.name);
            }
            assert!(law.states_over.contains(&Axis::Shard), "{}", law.name);
            let named = laws::ALL.iter().filter(|other| other.name == law.name);
            assert_eq!(named.count(), 1, "{}", law.name);
            if let Order::Axes(axes) = law.order {
                assert!(factors.iter().all(|axis| axes.contains(axis)), "{}", law.name);
            }
            assert!(law.shares.iter().all(|axis| law.inside(*axis).is_some()), "{}", law.name);
        }
    }
}
