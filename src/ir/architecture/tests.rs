use super::*;

#[test]
fn probe() {
    let d = Dimensions { hidden: Some(7168), layers: Some(48), heads: Some(64), vocab: Some(50257), positions: Some(2048), ..Dimensions::default() };
    let (a, _) = Architecture::from_dimensions(Family::Gpt2, &d).unwrap();
    assert_eq!(a.parameters().total, 29_974_418_432);
}
