use super::{Goal, Life, State, Step};

#[test]
fn a_stop_is_claimed_once() {
    let mut life = Life::known(State::Running);
    assert_eq!(life.claim(Goal::Stopped), Step::Stop);
    life.asked();
    assert_eq!(life.claim(Goal::Stopped), Step::Nothing);
}
