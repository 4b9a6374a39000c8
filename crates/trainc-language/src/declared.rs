//! The declaration of one value of a node, from which its row in the tables and all that is done with it
//! follow.

use super::spec::{Arg, NodeSpec, Prop, Repeat, Ty};
use super::table::same;

/// Where a value stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Place {
    /// An argument of the node, by its position.
    Arg(usize),
    /// A property of the node.
    Prop,
    /// A child that has this value as its argument.
    Child,
    /// A property of a child, whose name this is; the child's argument is another value.
    ChildProp(&'static str),
    /// The strings of all children of this name.
    Words,
    /// Properties of any name, of the node.
    AnyProps,
    /// Properties of any name, of all children of this name.
    ChildProps,
    /// Children of these tables.
    Children(&'static [&'static NodeSpec]),
    /// Nowhere: something about values that other declarations have.
    Beside,
}

/// How a value is shown and counted, where its type does not say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// By its type.
    OfType,
    /// A duration in milliseconds; others are in seconds.
    Milliseconds,
    /// A number without separators between its digits.
    Plain,
    /// A number that is only counted, whatever its unit.
    Count,
}

/// The member of CreateTrainingJob that a value is sent as.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Member {
    /// Its path; `[]` stands for the position of its node among those of its name:
    /// `InputDataConfig[].ContentType`.
    pub path: &'static str,
    /// The words of the language, or `true` and `false`, each with that of the API; empty if they are the
    /// same.
    pub words: &'static [(&'static str, &'static str)],
    /// Whether the value is sent as it is. Otherwise `emit` decides whether and how.
    pub is_as_written: bool,
    /// Whether its object has nothing that other nodes or `request` set.
    pub is_whole: bool,
    /// What messages call it; none: its name.
    pub called: Option<&'static str>,
    /// How to write it in place of `request`; none: its nodes and names with `…` as the value.
    pub written_as: Option<&'static str>,
    /// The argument of the estimators of the SageMaker Python SDK v2, if they have one.
    pub estimator: Option<&'static str>,
}

/// What holds where a value is not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultValue {
    /// Nothing: a value that is required.
    None,
    /// The same as with this value, in KDL without the quotes of a string.
    Value(&'static str),
    /// Something that depends on more, in Markdown.
    Words(&'static str),
    /// Nothing: where it is required, by itself or with others, in Markdown.
    Condition(&'static str),
    /// What SageMaker model parallel takes for this parameter, which the catalogue knows.
    OfSmp(&'static str),
}

/// A value of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Declared {
    /// Its name in the language.
    pub name: &'static str,
    /// Where it stands.
    pub place: Place,
    /// Its type.
    pub ty: Ty,
    /// Its unit.
    pub unit: Unit,
    /// Whether some layer must write it.
    pub required: bool,
    /// What holds where no layer writes it.
    pub default: DefaultValue,
    /// What it reaches, where neither a member nor a placeholder nor a file's key says it; empty: what its
    /// node reaches.
    pub reaches: &'static str,
    /// One line for the reference.
    pub doc: &'static str,
    /// The name of the argument of a child.
    pub argument: &'static str,
    /// The repetition of a child.
    pub repeat: Repeat,
    /// Whether its children come after those of the others in the reference.
    pub is_last: bool,
    /// The engines that support a child of `parallel`.
    pub engines: Option<&'static [&'static str]>,
    /// Whether it has an effect on SageMaker alone.
    pub only_sagemaker: bool,
    /// For a value that decides memory, time, cost or what is trained: the placeholders that carry it, the
    /// usual one first. Empty for others.
    pub decides: &'static [&'static str],
    /// Its name among the origins of a plan; `None` if it is not listed.
    pub listed: Option<&'static str>,
    /// Whether `request` gets a copy, in which placeholders are replaced.
    pub is_copied: bool,
    /// The member of the request that it is sent as.
    pub member: Option<Member>,
}

impl Declared {
    const fn new(name: &'static str, place: Place, ty: Ty) -> Self {
        Self {
            name,
            place,
            ty,
            unit: Unit::OfType,
            required: false,
            default: DefaultValue::None,
            reaches: "",
            doc: "",
            argument: "",
            repeat: Repeat::Once,
            is_last: false,
            engines: None,
            only_sagemaker: false,
            decides: &[],
            listed: Some(name),
            is_copied: false,
            member: None,
        }
    }

    /// Some layer must write it.
    pub(crate) const fn required(self) -> Self {
        Self { required: true, ..self }
    }

    /// Is the same as with this value where no layer writes it.
    pub(crate) const fn default(self, value: &'static str) -> Self {
        Self { default: DefaultValue::Value(value), required: false, ..self }
    }

    /// Says in words what holds where no layer writes it.
    pub(crate) const fn otherwise(self, words: &'static str) -> Self {
        Self { default: DefaultValue::Words(words), required: false, ..self }
    }

    /// Says in words where it is required; elsewhere nothing holds instead.
    pub(crate) const fn required_where(self, words: &'static str) -> Self {
        Self { default: DefaultValue::Condition(words), required: false, ..self }
    }

    /// Is this parameter of SageMaker model parallel, with its default.
    pub(crate) const fn smp(self, parameter: &'static str) -> Self {
        Self { default: DefaultValue::OfSmp(parameter), ..self }
    }

    /// Reaches what no member, placeholder or key of a file says.
    pub(crate) const fn reaches(self, what: &'static str) -> Self {
        Self { reaches: what, ..self }
    }

    /// Names the argument of a child, if the type does not.
    pub(crate) const fn argument(self, argument: &'static str) -> Self {
        Self { argument, ..self }
    }

    /// Allows several children of the name.
    pub(crate) const fn repeat(self, repeat: Repeat) -> Self {
        Self { repeat, ..self }
    }

    /// Puts its children after those of the others in the reference.
    pub(crate) const fn after_others(self) -> Self {
        Self { is_last: true, ..self }
    }

    /// Only these engines support it.
    pub(crate) const fn engines(self, engines: &'static [&'static str]) -> Self {
        Self { engines: Some(engines), ..self }
    }

    /// Has an effect on SageMaker alone.
    pub(crate) const fn only_sagemaker(self) -> Self {
        Self { only_sagemaker: true, ..self }
    }

    /// Decides memory, time, cost or what is trained, and is carried to the program by these placeholders.
    pub(crate) const fn decides(self, placeholders: &'static [&'static str]) -> Self {
        Self { decides: placeholders, ..self }
    }

    /// Has another name among the origins of a plan; none: that of its node.
    pub(crate) const fn listed(self, name: &'static str) -> Self {
        Self { listed: Some(name), ..self }
    }

    /// Is not listed among the origins, since it is part of their paths.
    pub(crate) const fn unlisted(self) -> Self {
        Self { listed: None, ..self }
    }

    /// Has a unit that its type does not say.
    pub(crate) const fn unit(self, unit: Unit) -> Self {
        Self { unit, ..self }
    }

    /// Is copied to `request`, where its placeholders are replaced.
    pub(crate) const fn copied(self) -> Self {
        Self { is_copied: true, ..self }
    }

    /// Returns whether placeholders in its texts are replaced.
    pub fn has_placeholders(&self) -> bool {
        matches!(self.ty, Ty::Text | Ty::Scalar) && !self.is_copied
    }

    /// Is sent as this member.
    pub(crate) const fn sent_as(self, path: &'static str) -> Self {
        let member = Member {
            path,
            words: &[],
            is_as_written: true,
            is_whole: false,
            called: None,
            written_as: None,
            estimator: None,
        };
        Self { member: Some(member), ..self }
    }

    const fn member(&self) -> Member {
        match self.member {
            Some(member) => member,
            None => panic!("not sent"),
        }
    }

    /// Is sent under conditions or in another form, which `emit` knows.
    pub(crate) const fn by_code(self) -> Self {
        Self { member: Some(Member { is_as_written: false, ..self.member() }), ..self }
    }

    /// Is in an object that has nothing else but what its node sets.
    pub(crate) const fn whole(self) -> Self {
        Self { member: Some(Member { is_whole: true, ..self.member() }), ..self }
    }

    /// Has words that the API spells differently.
    pub(crate) const fn in_words(self, words: &'static [(&'static str, &'static str)]) -> Self {
        Self { member: Some(Member { words, ..self.member() }), ..self }
    }

    /// Has another name in messages about the request.
    pub(crate) const fn called(self, called: &'static str) -> Self {
        Self { member: Some(Member { called: Some(called), ..self.member() }), ..self }
    }

    /// Is written so in place of a member of `request`.
    pub(crate) const fn written_as(self, form: &'static str) -> Self {
        Self { member: Some(Member { written_as: Some(form), ..self.member() }), ..self }
    }

    /// Is this argument of the SDK v2's estimators.
    pub(crate) const fn estimator(self, argument: &'static str) -> Self {
        Self { member: Some(Member { estimator: Some(argument), ..self.member() }), ..self }
    }

    /// Adds the documentation, as the compiler has it: each line with a space before it.
    pub(crate) const fn doc(self, doc: &'static str) -> Self {
        Self { doc: without_first_space(doc), ..self }
    }

    /// Returns the argument of a child.
    pub(crate) const fn value_argument(&self) -> Arg {
        let (name, required) = match self.ty {
            Ty::Text | Ty::Plain | Ty::Scalar => ("value", true),
            Ty::Bool => ("on", false),
            Ty::Duration => ("duration", true),
            Ty::Bytes => ("size", true),
            Ty::Rate => ("rate", true),
            Ty::Count => ("count", true),
            _ => ("", true),
        };
        let name = if self.argument.is_empty() { name } else { self.argument };
        assert!(
            !matches!(self.place, Place::Child) || !name.is_empty(),
            "the argument of this type needs a name"
        );
        let many = matches!(self.place, Place::Words) && matches!(self.repeat, Repeat::Once);
        Arg { name, ty: self.ty, required, many }
    }

    /// Returns the table of a child.
    pub(crate) const fn child(&self, args: &'static [Arg], props: &'static [Prop]) -> NodeSpec {
        let any = matches!(self.place, Place::ChildProps);
        NodeSpec {
            name: self.name,
            doc: self.doc,
            args: if any { &[] } else { args },
            props,
            free_props: if any { Some(self.ty) } else { None },
            repeat: self.repeat,
            engines: self.engines,
            ..NodeSpec::LEAF
        }
    }

    pub(crate) const fn is_child(&self) -> bool {
        matches!(self.place, Place::Child | Place::Words | Place::ChildProps)
    }

    pub(crate) const fn is_prop_of(&self, child: &str) -> bool {
        match self.place {
            Place::Prop => child.is_empty(),
            Place::ChildProp(name) => same(name, child),
            _ => false,
        }
    }
}

/// An argument, by its position.
pub(crate) const fn arg(at: usize, name: &'static str, ty: Ty) -> Declared {
    Declared::new(name, Place::Arg(at), ty).required()
}

/// The first argument, which may be left out.
pub(crate) const fn optional_arg(name: &'static str, ty: Ty) -> Declared {
    Declared::new(name, Place::Arg(0), ty)
}

/// A property.
pub(crate) const fn prop(name: &'static str, ty: Ty) -> Declared {
    Declared::new(name, Place::Prop, ty)
}

/// A child with one argument. A boolean may be left out: the node alone means `#true`.
pub(crate) const fn child(name: &'static str, ty: Ty) -> Declared {
    Declared::new(name, Place::Child, ty)
}

/// A property of a child that another declaration of the same node declares.
pub(crate) const fn prop_of(child: &'static str, name: &'static str, ty: Ty) -> Declared {
    Declared::new(name, Place::ChildProp(child), ty)
}

/// A child with strings as its arguments, or several such children with one each.
pub(crate) const fn words(name: &'static str, argument: &'static str, ty: Ty) -> Declared {
    Declared::new(name, Place::Words, ty).argument(argument)
}

/// Properties of any name.
pub(crate) const fn any_props(ty: Ty) -> Declared {
    Declared::new("parameters", Place::AnyProps, ty)
}

/// A child with properties of any name.
pub(crate) const fn props_of(child: &'static str, ty: Ty) -> Declared {
    Declared::new(child, Place::ChildProps, ty)
}

/// Children of these tables.
pub(crate) const fn children(tables: &'static [&'static NodeSpec]) -> Declared {
    Declared::new("", Place::Children(tables), Ty::Scalar)
}

/// Something about values that other declarations have: of the child of that name, or of all.
pub(crate) const fn beside(child: &'static str) -> Declared {
    Declared::new(child, Place::Beside, Ty::Scalar)
}

pub(crate) const fn without_first_space(doc: &'static str) -> &'static str {
    match doc.as_bytes() {
        [b' ', ..] => doc.split_at(1).1,
        _ => doc,
    }
}
