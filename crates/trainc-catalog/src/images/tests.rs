use super::*;

/// framework, pytorch, transformers, python, region, instance, smdistributed, answer.
type Recorded = (String, String, Option<String>, Option<String>, String, String, bool, String);

#[derive(serde::Deserialize)]
struct Fixture {
    rows: Vec<Recorded>,
}

fn kind(problem: &ImageProblem) -> &'static str {
    match problem {
        ImageProblem::UnknownVersion { .. } => "!UnknownVersion",
        ImageProblem::MissingTransformers => "!MissingTransformers",
        ImageProblem::UnknownPython { .. } => "!UnknownPython",
        ImageProblem::UnknownCombination { .. } => "!UnknownCombination",
        ImageProblem::MixedVersionLengths { .. } => "!MixedVersionLengths",
        ImageProblem::RegionWithoutImage { .. } => "!RegionWithoutImage",
        ImageProblem::UnsupportedProcessor { .. } => "!UnsupportedProcessor",
        ImageProblem::BadInstanceName { .. } => "!BadInstanceName",
        ImageProblem::InstanceDeprecated { .. } => "!InstanceDeprecated",
        ImageProblem::SmpUnknownVersion { .. } => "!SmpUnknownVersion",
    }
}

/// The answers of the real SDK 2.257.7, recorded by `tests/data/image_uris.py`.
#[test]
fn answers_as_sdk_2_does() {
    compare(include_str!("../../testdata/image_uris.json"), 500);
}

/// The answers of SDK 3 for versions that only it lists, recorded by `tests/data/image_uris_v3.py`.
#[test]
fn answers_as_sdk_3_does() {
    compare(include_str!("../../testdata/image_uris_v3.json"), 150);
}

fn compare(fixture: &str, at_least: usize) {
    let fixture: Fixture = serde_json::from_str(fixture).unwrap();
    assert!(fixture.rows.len() > at_least, "{}", fixture.rows.len());
    let mut wrong = Vec::new();
    for (framework, pytorch, transformers, python, region, instance, smdistributed, answer) in &fixture.rows {
        let query = ImageQuery {
            framework: match framework.as_str() {
                "pytorch" => Framework::PyTorch,
                "huggingface" => Framework::HuggingFace,
                _ => Framework::SmpV2,
            },
            pytorch,
            transformers: transformers.as_deref(),
            python: python.as_deref(),
            region,
            instance,
            smdistributed: *smdistributed,
        };
        let found = match resolve(&query) {
            Ok(image) => {
                let parsed = parse_uri(&image.uri).unwrap();
                assert_eq!((parsed.account, parsed.repository), (image.account, image.repository));
                assert_eq!((parsed.tag, parsed.region.as_str()), (Some(image.tag), region.as_str()));
                image.uri
            }
            Err(problem) => kind(&problem).to_owned(),
        };
        if found != *answer {
            wrong.push(format!("{query:?}\n  sdk  {answer}\n  here {found}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}\n{}", wrong.len(), fixture.rows.len(), wrong.join("\n"));
}

fn gpu(
    framework: Framework,
    pytorch: &'static str,
    transformers: Option<&'static str>,
) -> Result<Image, ImageProblem> {
    resolve(&ImageQuery {
        framework,
        pytorch,
        transformers,
        python: None,
        region: "us-west-2",
        instance: "ml.p5.48xlarge",
        smdistributed: false,
    })
}

#[test]
fn an_alias_keeps_its_spelling_and_tells_the_full_version() {
    let image = gpu(Framework::PyTorch, "2.5", None).unwrap();
    assert_eq!((image.tag.as_str(), image.pytorch_full_version.as_str()), ("2.5-gpu-py311", "2.5.1"));
    assert_eq!(image.patch_window, Some(("2024-10-29".to_owned(), "2025-10-29".to_owned())));
    let image = gpu(Framework::HuggingFace, "2.8", Some("4.56")).unwrap();
    assert_eq!(image.tag, "2.8-transformers4.56-gpu-py312-cu129-ubuntu22.04");
    let full = (image.pytorch_full_version.as_str(), image.transformers_full_version.as_deref());
    assert_eq!(full, ("2.8.0", Some("4.56.2")));
    let image = gpu(Framework::SmpV2, "2.2", None).unwrap();
    assert_eq!((image.tag.as_str(), image.pytorch_full_version.as_str()), ("2.2-gpu-py310-cu121", "2.2.0"));
}

#[test]
fn versions_of_sdk_3_are_marked() {
    let image = gpu(Framework::PyTorch, "2.10.0", None).unwrap();
    assert_eq!((image.tag.as_str(), image.sdk), ("2.10.0-gpu-py313", vec!["v3".to_owned()]));
    let image = gpu(Framework::PyTorch, "2.13", None).unwrap();
    assert_eq!(
        image.uri,
        "763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch:2.13-cu133-amzn2023-sagemaker"
    );
    assert_eq!(
        (image.family, image.python, image.pytorch_full_version.as_str()),
        (ImageFamily::Amzn2023, None, "2.13")
    );
    assert_eq!(gpu(Framework::PyTorch, "latest", None).unwrap().tag, "2.14-cu133-amzn2023-sagemaker");
    assert_eq!(gpu(Framework::PyTorch, "2.8.0", None).unwrap().sdk, ["v2", "v3"]);
}

#[test]
fn problems_carry_what_a_message_needs() {
    let Err(ImageProblem::UnknownVersion { known, .. }) = gpu(Framework::PyTorch, "2.4.1", None) else {
        panic!()
    };
    assert!(known.is_sorted_by_key(|version| version_key(version)));
    assert_eq!((known.first().unwrap().as_str(), known.last().unwrap().as_str()), ("0.4.0", "2.14"));
    let problem = gpu(Framework::HuggingFace, "2.0.0", Some("4.6.1")).unwrap_err();
    let bases = ["1.6.0", "1.7.1", "1.8.1"].map(str::to_owned).to_vec();
    let (transformers, pytorch) = ("4.6.1".to_owned(), "2.0.0".to_owned());
    assert_eq!(problem, ImageProblem::UnknownCombination { transformers, pytorch, bases });
    assert_eq!(gpu(Framework::HuggingFace, "2.0.0", None), Err(ImageProblem::MissingTransformers));
    for (version, library) in [("2.8.0", true), ("2.5.0", true), ("2.9.0", false)] {
        let Err(ImageProblem::SmpUnknownVersion { known, is_library_version, .. }) =
            gpu(Framework::SmpV2, version, None)
        else {
            panic!("{version}")
        };
        assert_eq!((known.len(), is_library_version), (7, library), "{version}");
    }
    let query = ImageQuery {
        framework: Framework::SmpV2,
        pytorch: "2.4.1",
        transformers: None,
        python: None,
        region: "cn-north-1",
        instance: "ml.p4d.24xlarge",
        smdistributed: true,
    };
    let Err(ImageProblem::RegionWithoutImage { known, .. }) = resolve(&query) else { panic!() };
    assert_eq!((known.len(), known.first().map(String::as_str)), (17, Some("ap-northeast-1")));
}

#[test]
fn the_neuron_image_says_that_the_version_is_another() {
    let ask = |pytorch| {
        let query = ImageQuery {
            framework: Framework::PyTorch,
            pytorch,
            transformers: None,
            python: None,
            region: "us-east-1",
            instance: "ml.trn1.32xlarge",
            smdistributed: false,
        };
        resolve(&query).map(|image| (image.tag, image.version_substituted)).unwrap()
    };
    assert_eq!(ask("1.11"), ("1.11-neuron-py38-sdk2.4.0-ubuntu20.04".to_owned(), false));
    assert_eq!(ask("2.0.0"), ("1.11.0-neuron-py38-sdk2.4.0-ubuntu20.04".to_owned(), true));
}

#[test]
fn a_neuron_image_says_its_sdk() {
    let query = ImageQuery {
        framework: Framework::PyTorch,
        pytorch: "1.11.0",
        transformers: None,
        python: None,
        region: "us-east-1",
        instance: "ml.trn1.32xlarge",
        smdistributed: false,
    };
    assert_eq!(resolve(&query).unwrap().neuron_sdk_version(), Some("2.4.0"));
    let gpu = ImageQuery { pytorch: "2.8.0", instance: "ml.p4d.24xlarge", ..query };
    assert_eq!(resolve(&gpu).unwrap().neuron_sdk_version(), None);
}

#[test]
fn every_row_is_listed_with_regions_that_exist() {
    assert_eq!(all().count(), TABLE.keys().count());
    for image in all() {
        assert!(!image.regions.is_empty(), "{image:?}");
        for region in &image.regions {
            assert!(regions::get(region).is_some(), "{region}");
        }
    }
    assert_eq!(newest_pytorch_gpu("us-west-2").unwrap().pytorch, "2.10.0");
    assert_eq!(newest_pytorch_gpu("nowhere"), None);
}

#[test]
fn a_uri_tells_the_cuda_version() {
    let dlc = |image: &str| cuda_of_uri(&format!("763104351884.dkr.ecr.us-west-2.amazonaws.com/{image}"));
    for (image, cuda) in [
        ("pytorch-training:1.13.1-gpu-py39", Some("11.7")),
        ("pytorch-training:2.5-gpu-py311", Some("12.4")),
        ("pytorch-training:2.8.0-cpu-py312", None),
        ("pytorch:2.13-cu133-amzn2023-sagemaker", Some("13.3")),
        ("huggingface-pytorch-training:2.0.0-transformers4.28.1-gpu-py310-cu118-ubuntu20.04", Some("11.8")),
        ("mine:2.5.1-gpu", None),
        ("mine:nightly-cuda12.6-devel", Some("12.6")),
        ("mine", None),
    ] {
        assert_eq!(dlc(image).as_deref(), cuda, "{image}");
    }
    // The CUDA version of all containers that torchrun can use is known.
    for version in support::torch_distributed_usable().unwrap().pytorch_versions {
        assert!(cuda_of_pytorch(&version).is_some(), "{version}");
    }
}
