//! Decides which settings of a job reach its program, and by what; the others are assumed of it.
//!
//! Input: a bound plan. Output: each setting that its declaration marks as deciding memory, time, cost or
//! what is trained, once. Nothing else decides this: the rules, the reports and `apply` read it from the
//! plan.

use crate::planned_values::{PlannedValues, compare};
use crate::script::known_arguments;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use trainc_catalog::argument_classes;
use trainc_catalog::vocabulary::{self, OptionMeaning, Unit};
use trainc_diag::source::Span;
use trainc_ir::script::literal;
use trainc_ir::{
    Assumed, Carrier, CommandOption, Delivery, FileReader, FileSetting, ForeignFile, Launcher, OptionDefault,
    Passed, Plan, Scalar, Script, WhyAssumed, version_of,
};
use trainc_language::NodeType as _;
use trainc_python::Expr;

/// A setting of the job that its declaration marks.
pub(crate) struct Setting {
    path: String,
    /// The placeholders that carry it.
    pub(crate) placeholders: &'static [&'static str],
    value: Scalar,
    pub(crate) span: Span,
}

impl Setting {
    /// Returns whether an option means it.
    fn is_meant_by(&self, row: &OptionMeaning) -> bool {
        row.paths.iter().any(|path| self.placeholders.contains(&path.as_str()))
    }
}

/// Something that the program gets, or that is written in it.
struct Offer {
    by: Carrier,
    /// Its name: an option, a variable, a file, or a place in the program.
    name: String,
    /// The text with placeholders that gives its value.
    text: Option<Span>,
    /// The options that it means, for a literal.
    means: Vec<&'static OptionMeaning>,
    value: Scalar,
    /// Whether it is a word of a container's own command line.
    is_word: bool,
    /// Whether the program is known not to read it.
    is_unread: bool,
}

/// Returns how the settings of a job reach its program.
pub(crate) fn delivery(plan: &Plan) -> Delivery {
    let mut out = Delivery::default();
    let values = PlannedValues::new(plan);
    let settings = settings(plan, &values);
    if settings.is_empty() {
        return out;
    }
    if plan.is_worker() {
        let all = settings.into_iter().map(|setting| passed(&setting, Carrier::File, "worker.json"));
        out.passed.extend(all);
        return out;
    }
    let program = Program::new(plan);
    for setting in settings {
        match program.carry(&setting, &values) {
            Ok(passed) => out.passed.push(passed),
            Err(why) => {
                let Setting { path, value, span, placeholders } = setting;
                let placeholder = placeholders.first().copied();
                out.assumed.push(Assumed { setting: path, value, span, placeholder, why: *why });
            }
        }
    }
    out.assumed.extend(program.sharding());
    out.assumed.extend(program.checkpoint_interval(&values));
    out
}

fn passed(setting: &Setting, by: Carrier, name: &str) -> Passed {
    Passed { setting: setting.path.clone(), by, name: name.to_owned(), value: setting.value.clone() }
}

/// Returns the written settings of a job that are marked.
pub(crate) fn settings(plan: &Plan, values: &PlannedValues) -> Vec<Setting> {
    let mut out: Vec<Setting> = Vec::new();
    // The name of an architecture whose dimensions are written is no model that a program could load.
    let model = plan.job.model.as_ref();
    let is_named = model.is_some_and(|it| it.dimensions.is_empty() && it.config.is_absent());
    plan.job.visit("", &mut |leaf| {
        let placeholders = leaf.declared.decides;
        let Some(first) = placeholders.first() else { return };
        let Some(span) = leaf.origin.and_then(trainc_ir::Origin::span) else { return };
        if *first == "model.name" && !is_named {
            return;
        }
        let value = values.get(first).unwrap_or_else(|| Scalar::Text(leaf.value.show(leaf.declared)));
        let path = match (leaf.path, leaf.name) {
            (path, "" | "name" | "kind") => path.to_owned(),
            (path, name) => format!("{path}.{name}"),
        };
        out.push(Setting { path, placeholders, value, span });
    });
    out
}

/// The program of a job, with all that reaches it.
struct Program<'a> {
    plan: &'a Plan,
    offers: Vec<Offer>,
    files: Vec<&'a ForeignFile>,
    /// The file that trainc writes for the engine, as it is read.
    written: Option<ForeignFile>,
    /// Options of the program's own names, with the option of the vocabulary that each becomes.
    aliases: Vec<(String, String)>,
    /// The classes whose fields are options of the program, as far as known.
    classes: Vec<String>,
    of_options: OnceCell<Vec<OwnDefault<'a>>>,
    of_constructors: OnceCell<Vec<OwnDefault<'a>>>,
}

/// A value that the program uses where it gets none.
struct OwnDefault<'a> {
    name: &'a str,
    class: Option<&'a str>,
    value: Scalar,
    /// What it means.
    rows: Vec<&'static OptionMeaning>,
    is_option: bool,
    /// Whether it is the type in which weights are loaded.
    is_type_of_weights: bool,
    span: Option<Span>,
}

impl<'a> Program<'a> {
    fn new(plan: &'a Plan) -> Self {
        let script = plan.script.as_deref();
        let mut out = Self {
            plan,
            offers: Vec::new(),
            files: plan.files.iter().filter(|file| !file.is_replaced).collect(),
            written: plan.written_file().and_then(|_| trainc_engine::write::read_back(plan)),
            aliases: script.map(aliases).unwrap_or_default(),
            classes: script
                .and_then(|script| script.command_line.as_ref())
                .map_or_else(Vec::new, |line| line.classes.clone()),
            of_options: OnceCell::new(),
            of_constructors: OnceCell::new(),
        };
        let takes = plan.job.program.as_ref().and_then(|program| program.takes.value());
        out.classes.extend(takes.cloned());
        out.add_arguments();
        out.add_words();
        out.add_file();
        if let Some(script) = script {
            out.add_constants(script);
        }
        out
    }

    /// Returns the options of the vocabulary that a name means, each with its name there.
    fn named_meanings(&self, name: &str) -> Vec<(String, &'static OptionMeaning)> {
        let plain = name.replace('-', "_").to_lowercase();
        let own = self.aliases.iter().filter(|(alias, _)| alias.to_lowercase() == plain);
        let own = own.map(|(_, option)| option.clone());
        let of_classes = self.classes.iter().map(|class| format!("{class}/{plain}"));
        let all = own.chain(of_classes).chain([plain.clone()]);
        all.filter_map(|name| vocabulary::get(&name).map(|row| (name, row))).collect()
    }

    /// Returns the options of the vocabulary that a name means.
    fn meanings(&self, name: &str) -> Vec<&'static OptionMeaning> {
        self.named_meanings(name).into_iter().map(|(_, row)| row).collect()
    }

    fn add_arguments(&mut self) {
        let Some(program) = &self.plan.job.program else { return };
        let placeholders = &self.plan.placeholders;
        let script = self.plan.script.as_deref();
        let reads = |name: &str| {
            script.is_none_or(|script| {
                let line = script.command_line.as_ref();
                let declares = line.is_none_or(|line| !line.is_complete || line.option(name).is_some());
                script.reads_arguments() && declares
            })
        };
        for h in program.hyperparameters.iter().filter(|h| reads(&h.name)) {
            let Some(val) = h.value.val() else { continue };
            let text = val.origin.span().filter(|span| placeholders.has(*span));
            let by = match val.origin {
                trainc_ir::Origin::Derived(_) => Carrier::Vocabulary,
                _ if text.is_some() => Carrier::Placeholder,
                _ => Carrier::Literal,
            };
            let means = self.meanings(&h.name);
            let (name, value) = (h.name.clone(), val.value.clone());
            self.offers.push(Offer { by, name, text, means, value, is_word: false, is_unread: false });
        }
        for pair in &program.environment {
            let Some(val) = pair.value.val() else { continue };
            let text = val.origin.span().filter(|span| placeholders.has(*span));
            let name = pair.key.to_lowercase();
            let means = self.meanings(name.strip_prefix("accelerate_").unwrap_or(&name));
            if text.is_none() && means.is_empty() {
                continue;
            }
            let reads = |script: &Script| {
                let mut modules = script.modules.iter();
                modules.any(|one| one.module.variables().contains(&pair.key.as_str()))
                    || script.has_text(&pair.key)
            };
            let is_launchers = name.starts_with("accelerate_");
            let is_unread = !is_launchers
                && self.plan.script.as_deref().is_some_and(|script| script.is_whole && !reads(script));
            let (name, value) = (pair.key.clone(), Scalar::Text(val.value.clone()));
            let by = Carrier::Variable;
            self.offers.push(Offer { by, name, text, means, value, is_word: false, is_unread });
        }
    }

    /// Adds the words of a container's own entry point and its arguments.
    fn add_words(&mut self) {
        let Some(program) = &self.plan.job.program else { return };
        let parts: Vec<(&str, Span)> = program
            .words()
            .filter_map(|word| Some((word.value.as_str(), word.origin.span()?)))
            .flat_map(|(text, span)| text.split_whitespace().map(move |part| (part, span)))
            .collect();
        for (at, (part, span)) in parts.iter().enumerate() {
            let has_placeholder = self.plan.placeholders.has(*span);
            let Some(name) = part.strip_prefix("--") else {
                if has_placeholder {
                    let (name, value) = ((*part).to_owned(), Scalar::Text((*part).to_owned()));
                    let (by, text) = (Carrier::Placeholder, Some(*span));
                    self.offers.push(Offer {
                        by,
                        name,
                        text,
                        means: Vec::new(),
                        value,
                        is_word: true,
                        is_unread: false,
                    });
                }
                continue;
            };
            let next = parts.get(at + 1).map(|(next, _)| *next).filter(|next| !next.starts_with("--"));
            let (name, value) = name.split_once('=').unwrap_or((name, next.unwrap_or("true")));
            let means = self.meanings(name);
            let by = if has_placeholder { Carrier::Placeholder } else { Carrier::Literal };
            let text = Some(*span).filter(|_| has_placeholder);
            let (name, value) = (name.to_owned(), Scalar::Text(value.trim_matches(['"', '\'']).to_owned()));
            self.offers.push(Offer { by, name, text, means, value, is_word: true, is_unread: false });
        }
    }

    /// Adds the values of the file that an argument names.
    fn add_file(&mut self) {
        let of_program = self.files.iter().copied().filter(|file| file.reader == FileReader::Program);
        let of_program: Vec<&ForeignFile> = of_program.filter(|file| self.gets(file)).collect();
        let all = self.plan.named_files.iter().chain(of_program);
        let settings: Vec<(&ForeignFile, &FileSetting)> =
            all.flat_map(|file| file.settings.iter().map(move |one| (file, one))).collect();
        for (file, setting) in settings {
            let Some(value) = trainc_engine::files::as_written(&setting.value) else { continue };
            let in_table = vocabulary::get(&format!("{}/{}", file.table, setting.key));
            let means = in_table.into_iter().chain(self.meanings(&setting.key)).collect();
            let (by, name) = (Carrier::File, setting.key.clone());
            self.offers.push(Offer { by, name, text: None, means, value, is_word: false, is_unread: false });
        }
    }

    /// Adds literals that the program itself gives to known calls.
    fn add_constants(&mut self, script: &Script) {
        for known in known_arguments(script) {
            let Some(value) = literal(&known.argument.value) else { continue };
            let name = format!("{}:{}", known.module.path, known.module.line(&known.argument.at));
            let means = vocabulary::get(known.option).into_iter().collect();
            let by = Carrier::Literal;
            self.offers.push(Offer { by, name, text: None, means, value, is_word: false, is_unread: false });
        }
    }

    /// Returns what carries a setting to the program, or why it is assumed.
    fn carry(&self, setting: &Setting, values: &PlannedValues) -> Result<Passed, Box<WhyAssumed>> {
        if let Some(found) = self.in_file(setting) {
            return Ok(found);
        }
        if let Some(why) = self.frozen_weights(setting, values) {
            return Err(Box::new(why));
        }
        let mut other = None;
        let mut unread = None;
        for offer in &self.offers {
            // A text that is the value, or one with it under a name that means it.
            let placeholders = &self.plan.placeholders;
            let is_value = |text| placeholders.is_value(text, setting.placeholders);
            let uses = |text| placeholders.uses(text, setting.placeholders);
            let means = offer.means.iter().find(|row| setting.is_meant_by(row));
            let is_named = means.is_some() || offer.is_word;
            let by_text = offer.text.is_some_and(|text| is_value(text) || (is_named && uses(text)));
            // What trainc passes has the value, in the words of the class.
            let by_class = offer.by == Carrier::Vocabulary && means.is_some();
            let compared =
                means.and_then(|row| compare(values, row, &offer.value)).and_then(|found| found.is_same);
            let is_it = by_text || by_class || compared == Some(true);
            if is_it && offer.is_unread {
                unread = Some(WhyAssumed::UnreadVariable { name: offer.name.clone() });
            } else if is_it {
                let value = offer.value.clone();
                return Ok(Passed {
                    setting: setting.path.clone(),
                    by: offer.by,
                    name: offer.name.clone(),
                    value,
                });
            } else if compared == Some(false) {
                other = Some(WhyAssumed::OtherValue { name: offer.name.clone(), value: offer.value.clone() });
            }
        }
        if let Some(place) = self.model_in_script(setting) {
            return Ok(passed(setting, Carrier::Literal, &place));
        }
        let default = || self.default(setting, values);
        Err(Box::new(unread.or(other).or_else(default).unwrap_or(WhyAssumed::NotPassed)))
    }

    /// Returns the key of a file that sets a setting.
    fn in_file(&self, setting: &Setting) -> Option<Passed> {
        let file = self.files.iter().find(|file| file.span.source == setting.span.source);
        if let Some(file) = file {
            if !self.gets(file) {
                return None;
            }
            let key =
                file.settings.iter().find(|one| one.value_span == setting.span).map(|one| one.key.as_str());
            return Some(passed(setting, Carrier::File, key.unwrap_or(&file.packed_as)));
        }
        // The same value may be in the manifest and in a file of the engine.
        let of_engine = self.files.iter().copied().filter(|file| file.reader != FileReader::Program);
        let all = self.written.iter().chain(of_engine).filter(|file| self.gets(file));
        all.into_iter().find_map(|file| Self::key_of(file, setting))
    }

    /// Returns whether the launcher reads a file, or something names it to the program.
    fn gets(&self, file: &ForeignFile) -> bool {
        let is_program = file.reader == FileReader::Program;
        if !is_program && self.plan.launch.launcher == Launcher::Accelerate {
            return true;
        }
        // Another file of the engine names it.
        if file.reader == FileReader::OtherFile {
            return true;
        }
        let name = file.name();
        let in_offers = self.offers.iter().any(|offer| offer.value.python().contains(name));
        let script = self.plan.script.as_deref();
        let in_script = script.is_none_or(|script| {
            let texts = script.modules.iter().flat_map(|one| &one.module.texts);
            texts.into_iter().any(|text| text.value.contains(name))
        });
        in_offers || in_script
    }

    /// Returns the key of an engine's file that sets a setting.
    fn key_of(written: &ForeignFile, setting: &Setting) -> Option<Passed> {
        let table = trainc_catalog::engine_files::keys(written.table)?;
        let word = |key: &str| table.find(key)?.word.as_ref().map(|word| word.replace('/', "."));
        let sets = |key: &str| word(key).is_some_and(|word| word == setting.path);
        let one = written.settings.iter().find(|one| sets(&one.key))?;
        // `auto` leaves it to the program's arguments.
        let is_open =
            one.value.scalar().is_some_and(|value| value.python() == "auto" || value.truth() == Some(false));
        (!is_open).then(|| passed(setting, Carrier::File, &one.key))
    }

    /// Returns the strategy of a job whose program is said to take a class of arguments, and gets no word of
    /// FSDP: it would train without sharding.
    fn sharding(&self) -> Option<Assumed> {
        let plan = self.plan;
        plan.job.program.as_ref()?.takes.val()?;
        let strategy = plan.job.parallel.as_ref()?.strategy.val()?;
        let shards = plan.engine.is_some_and(|engine| engine.law.can_shard() && engine.front.file.is_none());
        let is_fsdp = |text: &str| text.to_lowercase().contains("fsdp") || text.contains("FullySharded");
        let in_script = plan.script.iter().flat_map(|script| &script.modules).any(|one| {
            let calls =
                one.module.calls.iter().any(|call| is_fsdp(&call.name) || call.function() == "fully_shard");
            let keywords = one.module.calls.iter().flat_map(|call| &call.arguments);
            let mut keywords = keywords.filter_map(|argument| argument.keyword.as_deref());
            calls || keywords.any(is_fsdp) || one.module.texts.iter().any(|text| is_fsdp(&text.value))
        });
        if !shards || in_script || self.offers.iter().any(|offer| is_fsdp(&offer.name)) {
            return None;
        }
        Some(Assumed {
            setting: "parallel.strategy".to_owned(),
            value: Scalar::Text(strategy.value.clone()),
            span: strategy.origin.span()?,
            placeholder: None,
            why: WhyAssumed::NotPassed,
        })
    }

    /// Returns the default type in which the program loads weights that it does not train, if this is not the
    /// planned precision: `bf16` of the Trainer is the arithmetic and leaves them as they are.
    fn frozen_weights(&self, setting: &Setting, values: &PlannedValues) -> Option<WhyAssumed> {
        let job = &self.plan.job;
        let is_frozen = job.adapter.is_some() && job.quantize.is_none();
        if !is_frozen || !setting.placeholders.contains(&"train.precision") {
            return None;
        }
        if self.offers.iter().any(|offer| offer.means.iter().any(|row| row.is_type_of_weights)) {
            return None;
        }
        let types = self.defaults_of_options().iter().filter(|default| default.is_type_of_weights);
        self.first_default(types, setting, values).filter(WhyAssumed::is_other_default)
    }

    /// Returns the interval of checkpoints if the program gets none and has a default of its own.
    fn checkpoint_interval(&self, values: &PlannedValues) -> Option<Assumed> {
        let placeholders = &["checkpoint.steps"];
        let every = &self.plan.job.checkpoint.as_ref()?.every;
        let (value, span) = (values.get(placeholders[0])?, every.span()?);
        let setting = Setting { path: "checkpoint.every".to_owned(), placeholders, value, span };
        let mut why = *self.carry(&setting, values).err()?;
        // No placeholder has the interval.
        if let WhyAssumed::Default { placeholder, .. } = &mut why {
            *placeholder = None;
        }
        let Setting { path, value, span, .. } = setting;
        why.is_other_default().then_some(Assumed { setting: path, value, span, placeholder: None, why })
    }

    /// Returns where the program has the name of the model.
    fn model_in_script(&self, setting: &Setting) -> Option<String> {
        let script = self.plan.script.as_deref().filter(|_| setting.placeholders.contains(&"model.name"))?;
        let name = setting.value.python();
        script.modules.iter().find_map(|module| {
            let text = module.module.texts.iter().find(|text| text.value == name)?;
            Some(format!("{}:{}", module.path, module.line(&text.at)))
        })
    }

    /// Returns the default that the program uses in place of a setting.
    fn default(&self, setting: &Setting, values: &PlannedValues) -> Option<WhyAssumed> {
        // An unread file may set it.
        let has_unread_file =
            self.offers.iter().any(|offer| matches!(offer.name.as_str(), "config" | "config_file"))
                && self.plan.file_of(FileReader::Program).is_none()
                && self.plan.named_files.is_empty();
        if has_unread_file {
            return None;
        }
        self.first_default(self.defaults_of_options(), setting, values)
            .or_else(|| self.first_default(self.defaults_of_constructors(), setting, values))
    }

    /// Returns the first of these defaults that means a setting, one that differs from the plan before others.
    fn first_default<'d>(
        &self,
        defaults: impl IntoIterator<Item = &'d OwnDefault<'a>>,
        setting: &Setting,
        values: &PlannedValues,
    ) -> Option<WhyAssumed>
    where
        'a: 'd,
    {
        let script = self.plan.script.as_deref()?;
        let mut same = None;
        for default in defaults {
            let row = default.rows.iter().copied().find(|row| setting.is_meant_by(row));
            let Some(row) = row.filter(|row| !is_set_otherwise(script, row)) else { continue };
            let Some(is_same) = same_as_default(values, row, &default.value) else { continue };
            let found = WhyAssumed::Default {
                name: default.name.to_owned(),
                class: default.class.map(str::to_owned),
                value: default.value.clone(),
                is_same,
                is_option: default.is_option,
                placeholder: placeholder_of(row, setting),
                span: default.span,
            };
            if !is_same {
                return Some(found);
            }
            same = same.or(Some(found));
        }
        same
    }

    /// Returns the defaults of the program's options that are not passed.
    fn defaults_of_options(&self) -> &[OwnDefault<'a>] {
        self.of_options.get_or_init(|| {
            let lines = self.plan.script.as_deref().and_then(|script| script.command_line.as_ref());
            let is_passed =
                |option: &CommandOption| self.offers.iter().any(|offer| option.names.contains(&offer.name));
            let default = |option: &'a CommandOption| {
                let OptionDefault::Value(value) = &option.default else { return None };
                let names = option.names.iter().chain([&option.attribute]);
                // Each once, in the order of their names.
                let rows: BTreeMap<String, &OptionMeaning> =
                    names.flat_map(|name| self.named_meanings(name)).collect();
                Some(OwnDefault {
                    name: option.names.first().map_or("", String::as_str),
                    class: option.class.as_deref(),
                    value: value.clone(),
                    rows: rows.into_values().collect(),
                    is_option: true,
                    is_type_of_weights: vocabulary::get(&option.attribute)
                        .is_some_and(|row| row.is_type_of_weights),
                    span: option.span,
                })
            };
            let options = lines.into_iter().flat_map(|line| &line.options);
            options.filter(|option| !is_passed(option)).filter_map(default).collect()
        })
    }

    /// Returns the defaults of libraries' classes that the program itself makes, of the arguments that it
    /// does not give.
    fn defaults_of_constructors(&self) -> &[OwnDefault<'a>] {
        self.of_constructors.get_or_init(|| {
            let version = |package: &str| version_of(&self.plan.programs, package);
            let modules = self.plan.script.iter().flat_map(|script| &script.modules);
            let calls = modules.flat_map(|module| module.module.calls.iter().map(move |call| (module, call)));
            let mut out = Vec::new();
            for (module, call) in calls.filter(|(_, call)| !call.is_open && call.positional().count() < 2) {
                let class = call.function();
                let is_library = argument_classes::class(class).is_some();
                if !is_library || self.classes.iter().any(|parsed| parsed == class) {
                    continue;
                }
                let is_given = |name: &str| call.keyword(name).is_some();
                for field in argument_classes::fields(class, &version).into_iter().flatten() {
                    let row = vocabulary::of_class(class, field.name).filter(|row| {
                        let by_other = row.also_by.iter().any(|other| is_given(other));
                        row.is_written && !is_given(field.name) && !by_other
                    });
                    let (Some(row), Some(value)) = (row, field.value_if_absent(is_given)) else { continue };
                    out.push(OwnDefault {
                        name: field.name,
                        class: Some(class),
                        value: value.clone(),
                        rows: vec![row],
                        is_option: false,
                        is_type_of_weights: false,
                        span: Some(module.span(&call.at)),
                    });
                }
            }
            out
        })
    }
}

/// Returns whether a program may set an option by another call or text.
fn is_set_otherwise(script: &Script, row: &OptionMeaning) -> bool {
    let reads = |other: &String| {
        let attributes = script.modules.iter().flat_map(|one| &one.module.attributes);
        attributes.into_iter().any(|read| read.name == *other)
    };
    let is_set =
        |other: &String| script.calls(other).next().is_some() || script.has_text(other) || reads(other);
    row.also_by.iter().any(is_set)
}

/// Returns whether a default is the planned value; `None` if that is not known.
fn same_as_default(values: &PlannedValues, row: &OptionMeaning, default: &Scalar) -> Option<bool> {
    let found = compare(values, row, default)?;
    if let Some(unit) = row.unit {
        let is_fraction = found.planned.number().is_some_and(|number| number > 0.0 && number < 1.0);
        if is_fraction != (unit == Unit::Fraction) {
            return None;
        }
    }
    if let Some(equals) = &row.equals {
        let is_planned = found.planned.python().to_lowercase() == *equals;
        // Another switch has another word; one that no switch has is not compared.
        let is_said = row.writes.is_empty() || row.writes.contains_key(&found.planned.python());
        return match default.truth() {
            Some(false) if is_planned => Some(false),
            Some(true) if is_said => Some(is_planned),
            _ => None,
        };
    }
    // A switch that is off is the planned value of a setting that is off.
    found.is_same.or_else(|| is_off(&found.planned, default))
}

/// Returns the placeholder that an option takes for a setting.
fn placeholder_of(row: &OptionMeaning, setting: &Setting) -> Option<&'static str> {
    setting.placeholders.iter().copied().find(|path| row.paths.iter().any(|one| one == path))
}

/// Returns whether a switch that is off, or not set, is what is planned.
fn is_off(planned: &Scalar, value: &Scalar) -> Option<bool> {
    if value.truth() != Some(false) && value.number() != Some(0.0) {
        return None;
    }
    match planned {
        Scalar::Bool(on) => Some(!on),
        Scalar::Int(_) | Scalar::Float(_) => planned.number().map(|number| number == 0.0),
        // A word, as of a precision: another option may say it.
        Scalar::Text(_) | Scalar::Null => None,
    }
}

/// Returns the names of a program's own options and variables that it hands to known calls: `args.bs` in
/// `TrainingArguments(per_device_train_batch_size=args.bs)`.
fn aliases(script: &Script) -> Vec<(String, String)> {
    let mut out = Vec::new();
    for known in known_arguments(script) {
        if let Some(name) = source_name(&known.argument.value, 0) {
            out.push((name, known.option.to_owned()));
        }
    }
    out
}

/// Returns the attribute or variable that an expression hands on, through a conversion or none.
fn source_name(value: &Expr, depth: usize) -> Option<String> {
    const CONVERSIONS: [&str; 5] = ["int", "float", "str", "bool", "str2bool"];
    match value {
        Expr::Name(name) => name.rsplit_once('.').map(|(_, name)| name.to_owned()),
        Expr::Call(call) if depth < 4 && CONVERSIONS.contains(&call.name.as_str()) => {
            source_name(&call.positional().next()?.value, depth + 1)
        }
        Expr::Call(call) if matches!(call.function(), "get" | "getenv") => {
            match &call.positional().next()?.value {
                Expr::Text(name) => Some(name.clone()),
                _ => None,
            }
        }
        Expr::Subscript(of, keys) => match (of.as_ref(), keys.first()) {
            (Expr::Name(of), Some(Expr::Text(name))) if of.ends_with("environ") => Some(name.clone()),
            _ => None,
        },
        _ => None,
    }
}
