//! The time that silent plugins cost one request in total.

use std::sync::Arc;
use std::time::Duration;

use nri_proto::{EnvVar, Event};
use tokio::time::{Instant, sleep};

use super::fake::{Diary, FakePlugin, LIFE, Manner, SECOND, adaptation, at_once, chain, container, pod};
use super::validating::validator;
use crate::Adaptation;
use crate::Notice;
use crate::RelayError;
use crate::api::health::State;
use crate::merge::MergedCreate;

const TIMEOUT: &str = "plugin_request_timeout = '500ms'\nplugin_defaults.strikes = 100";
const BUDGET: Duration = Duration::from_millis(1500);

fn plugins(n: usize, manner: Manner, diary: &Diary) -> Vec<(String, Arc<FakePlugin>)> {
    let plugin = |number: usize| {
        let name = format!("{number:02}-p");
        let plugin = FakePlugin::new(&name, LIFE, manner, diary);
        (name, plugin)
    };
    (0..n).map(plugin).collect()
}

async fn with(policy: &str, plugins: &[(String, Arc<FakePlugin>)]) -> Adaptation {
    let plugins: Vec<_> = plugins.iter().map(|(name, plugin)| (&**name, plugin)).collect();
    adaptation(policy, &plugins).await
}

/// Creates a container, and measures the time.
async fn create(nri: &Adaptation) -> (Result<MergedCreate, RelayError>, Duration) {
    let begun = Instant::now();
    let operation = nri.begin(pod("p"));
    let created = operation.create_container(container("c")).await;
    let took = begun.elapsed();
    operation.commit();
    (created, took)
}

#[tokio::test(start_paused = true)]
async fn sixty_silent_plugins_cost_a_request_its_budget() {
    for end in [false, true] {
        let diary = Diary::default();
        let silent = plugins(60, Manner::Never, &diary);
        let nri = with(TIMEOUT, &silent).await;
        let took = if end {
            let begun = Instant::now();
            nri.begin(pod("p")).stop_container(container("c")).await.unwrap();
            begun.elapsed()
        } else {
            let (created, took) = create(&nri).await;
            created.unwrap();
            assert_eq!(diary.lines().len(), 21, "the others were not asked in it");
            took
        };
        assert_eq!(took, BUDGET, "end: {end}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_plugin_with_a_long_request_timeout_does_not_lengthen_what_silent_ones_cost() {
    let policy = format!("{TIMEOUT}\nplugins.long.request_timeout = '60s'");
    for (manner, costs) in [(at_once(), Duration::ZERO), (Manner::Never, Duration::from_millis(59_500))] {
        let diary = Diary::default();
        let mut all = plugins(60, Manner::Never, &diary);
        all.insert(0, ("00-long".to_owned(), FakePlugin::new("00-long", LIFE, manner, &diary)));
        let (created, took) = create(&with(&policy, &all).await).await;
        created.unwrap();
        assert_eq!(took, BUDGET + costs);
    }
}

#[tokio::test(start_paused = true)]
async fn a_budget_of_the_operators_own_counts_and_a_reload_changes_it() {
    let silent = plugins(20, Manner::Never, &Diary::default());
    let nri = with(&format!("request_budget = '700ms'\n{TIMEOUT}"), &silent).await;
    assert_eq!(create(&nri).await.1, Duration::from_millis(700));
    let config = crate::Config { socket: None, ..crate::Config::from_toml("request_budget = '600ms'").unwrap() };
    assert!(nri.reload(&config).is_empty());
    let again = plugins(40, Manner::Never, &Diary::default());
    for (name, plugin) in &again[20..] {
        let plugin = Arc::clone(plugin) as Arc<dyn crate::api::plugin::Plugin>;
        nri.admit(name.parse().unwrap(), plugin).await.unwrap();
    }
    let begun = Instant::now();
    nri.begin(pod("q")).notify(Notice::RunPod).await.unwrap();
    assert_eq!(begun.elapsed(), Duration::from_millis(600));
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_was_not_asked_for_want_of_time_hears_of_the_request_later() {
    let diary = Diary::default();
    let mut all = plugins(40, Manner::Never, &diary);
    let (name, last) = ("90-last".to_owned(), FakePlugin::new("90-last", LIFE, at_once(), &diary));
    all.push((name, Arc::clone(&last)));
    let nri = with(TIMEOUT, &all).await;
    let (created, took) = create(&nri).await;
    created.unwrap();
    assert_eq!(took, BUDGET);
    let entries = nri.ledger(|ledger| ledger.of("c"));
    let cut_short =
        "90-last failed CreateContainer: silent plugins have used up the time of the request (request_budget)";
    assert!(entries.iter().any(|entry| entry.to_string().starts_with(cut_short)), "{entries:?}");
    sleep(Duration::from_millis(10)).await;
    assert!(diary.lines().contains(&"90-last CreateContainer c".to_owned()), "{:?}", diary.lines());
    assert_eq!(nri.plugins().last().unwrap().state, State::Active);
}

#[tokio::test(start_paused = true)]
async fn a_healthy_plugin_behind_silent_ones_is_asked_and_its_answer_counts() {
    let diary = Diary::default();
    let mut all = plugins(10, Manner::Never, &diary);
    let good = FakePlugin::new("90-good", LIFE, Manner::After(Duration::from_millis(50)), &diary);
    good.adjust(|adjustment| adjustment.env.set(EnvVar::new("A", "1")).unwrap());
    all.push(("90-good".to_owned(), good));
    let (created, took) = create(&with(TIMEOUT, &all).await).await;
    assert!(created.unwrap().adjustment.env.get("A").is_some());
    assert!(took <= BUDGET + Duration::from_millis(50), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_required_plugin_behind_silent_ones_has_its_whole_request_timeout() {
    let mut all = plugins(40, Manner::Never, &Diary::default());
    let guard = FakePlugin::new("90-guard", LIFE, Manner::After(Duration::from_millis(450)), &Diary::default());
    all.push(("90-guard".to_owned(), Arc::clone(&guard)));
    let nri = with(&format!("{TIMEOUT}\nplugins.guard.required = true"), &all).await;
    let (created, took) = create(&nri).await;
    created.unwrap();
    assert_eq!(took, BUDGET + Duration::from_millis(450));
    guard.behave(Manner::Never);
    let (created, took) = create(&nri).await;
    assert!(chain(&created.unwrap_err()).ends_with("no answer in time"));
    assert!(took >= Duration::from_millis(500), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn to_be_cut_short_is_no_strike() {
    let diary = Diary::default();
    let mut all = plugins(10, Manner::Never, &diary);
    // The request waits for less than the plugin's request timeout; the plugin answers within it.
    all.push((
        "80-slow".to_owned(),
        FakePlugin::new("80-slow", LIFE, Manner::After(Duration::from_millis(400)), &diary),
    ));
    all.push(("90-late".to_owned(), FakePlugin::new("90-late", LIFE, Manner::Never, &diary)));
    let nri = with(&TIMEOUT.replace("100", "1"), &all).await;
    let (created, _) = create(&nri).await;
    created.unwrap();
    let state = |id: &str| nri.plugins().iter().find(|plugin| plugin.id.to_string() == id).map(|plugin| plugin.state);
    assert_eq!((state("80-slow"), state("90-late")), (Some(State::Active), Some(State::Active)), "not yet");
    sleep(SECOND).await;
    assert_eq!(state("80-slow"), Some(State::Active));
    assert_eq!(state("90-late"), None, "its own time is over, and one strike is all that it has");
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_is_cut_short_fails_the_request_if_the_policy_says_so() {
    let mut all = plugins(10, Manner::Never, &Diary::default());
    let slow = FakePlugin::new("80-slow", LIFE, Manner::After(Duration::from_millis(400)), &Diary::default());
    all.push(("80-slow".to_owned(), slow));
    let (created, _) = create(&with(&format!("{TIMEOUT}\nplugins.slow.on_timeout = 'fail'"), &all).await).await;
    assert_eq!(
        chain(&created.unwrap_err()),
        "plugin 80-slow failed to handle CreateContainer request: silent plugins have used up the time of the request (request_budget)"
    );
}

#[tokio::test(start_paused = true)]
async fn a_healthy_chain_has_no_budget() {
    let healthy = plugins(60, Manner::After(Duration::from_millis(100)), &Diary::default());
    let nri = with(TIMEOUT, &healthy).await;
    let (created, took) = create(&nri).await;
    created.unwrap();
    assert_eq!(took, Duration::from_millis(6000));
    assert!(nri.ledger(|ledger| ledger.of("c")).is_empty());
}

#[tokio::test(start_paused = true)]
async fn one_request_timeout_of_the_budget_is_kept_for_validators() {
    let mut all = plugins(40, Manner::Never, &Diary::default());
    for (name, takes) in [("80-a", 400), ("90-b", 450)] {
        all.push((name.to_owned(), validator(name, Manner::After(Duration::from_millis(takes)), &Diary::default())));
    }
    let (created, took) = create(&with(TIMEOUT, &all).await).await;
    created.unwrap();
    assert_eq!(took, Duration::from_millis(1000 + 450));
    all.push(("91-c".to_owned(), validator("91-c", Manner::Never, &Diary::default())));
    let silent = plugins(40, Manner::Never, &Diary::default());
    all.splice(..40, silent);
    let (created, took) = create(&with(TIMEOUT, &all).await).await;
    assert_eq!(chain(&created.unwrap_err()), "validator plugin 91-c failed: no answer in time");
    assert_eq!(took, BUDGET);
}

#[tokio::test(start_paused = true)]
async fn time_lost_in_the_queue_of_a_plugin_that_becomes_silent_is_charged() {
    let diary = Diary::default();
    let all = plugins(60, Manner::Never, &diary);
    let nri = Arc::new(with(TIMEOUT, &all).await);
    let begun = Instant::now();
    let requests: Vec<_> = (0..4)
        .map(|number| {
            let nri = Arc::clone(&nri);
            tokio::spawn(async move {
                let operation = nri.begin(pod(&format!("p{number}")));
                operation.notify(Notice::RunPod).await.unwrap();
                operation.commit();
            })
        })
        .collect();
    for request in requests {
        request.await.unwrap();
    }
    assert!(begun.elapsed() <= BUDGET, "{:?}", begun.elapsed());
    assert!(diary.lines().iter().all(|line| line.contains(Event::RunPodSandbox.rpc())));
}

#[tokio::test(start_paused = true)]
async fn a_plugin_with_a_longer_request_timeout_than_others_may_take_it() {
    let slow = FakePlugin::new("10-slow", LIFE, Manner::After(SECOND * 8), &Diary::default());
    slow.adjust(|adjustment| adjustment.env.set(EnvVar::new("A", "1")).unwrap());
    let judge = validator("20-judge", at_once(), &Diary::default());
    let nri = adaptation("plugins.slow.request_timeout = '10s'", &[("10-slow", &slow), ("20-judge", &judge)]).await;
    let (created, took) = create(&nri).await;
    assert_eq!(took, SECOND * 8);
    assert!(!created.unwrap().adjustment.env.is_empty(), "its answer counts");
}

#[tokio::test(start_paused = true)]
async fn what_an_undo_tells_costs_its_budget_however_many_plugins_are_silent() {
    let diary = Diary::default();
    let all = plugins(60, at_once(), &diary);
    let nri = with(TIMEOUT, &all).await;
    let operation = nri.begin(pod("p"));
    operation.create_container(container("c")).await.unwrap();
    all.iter().for_each(|(_, plugin)| plugin.behave(Manner::Never));
    drop(operation);
    let begun = Instant::now();
    nri.begin(pod("p")).notify(Notice::StopPod).await.unwrap();
    assert!(begun.elapsed() <= BUDGET * 2, "it waits behind a Stop and a Remove: {:?}", begun.elapsed());
    let told = diary.lines().iter().filter(|line| line.ends_with("StopContainer c")).count();
    assert_eq!(told, 60, "who was not told for want of time hears it as soon as possible");
}

#[tokio::test(start_paused = true)]
async fn an_undo_cuts_no_required_plugin_short() {
    let diary = Diary::default();
    let mut all = plugins(40, at_once(), &diary);
    let guard = FakePlugin::new("90-guard", LIFE, at_once(), &diary);
    all.push(("90-guard".to_owned(), Arc::clone(&guard)));
    let nri = with(&format!("{TIMEOUT}\nplugins.guard.required = true"), &all).await;
    let operation = nri.begin(pod("p"));
    operation.create_container(container("c")).await.unwrap();
    all[..40].iter().for_each(|(_, plugin)| plugin.behave(Manner::Never));
    let takes = Duration::from_millis(400);
    guard.behave(Manner::After(takes));
    drop(operation);
    let begun = Instant::now();
    nri.begin(pod("p")).notify(Notice::PostUpdatePod).await.unwrap();
    assert!(begun.elapsed() >= BUDGET + takes * 3, "it was waited for each time: {:?}", begun.elapsed());
    let told: Vec<_> = diary.lines().into_iter().filter(|line| line.starts_with("90-guard")).collect();
    let expected = ["CreateContainer c", "StopContainer c", "RemoveContainer c", "PostUpdatePodSandbox p"];
    assert_eq!(told, expected.map(|line| format!("90-guard {line}")));
}

#[tokio::test(start_paused = true)]
async fn a_deadline_of_the_caller_that_is_earlier_than_the_budget_counts_first() {
    let silent = plugins(60, Manner::Never, &Diary::default());
    let nri = with(TIMEOUT, &silent).await;
    let begun = Instant::now();
    let operation = nri.begin(pod("p")).until(begun + Duration::from_millis(520));
    let error = operation.create_container(container("c")).await.unwrap_err();
    assert_eq!(begun.elapsed(), Duration::from_millis(520));
    assert!(error.is_deadline(), "{error:?}");
    assert!(chain(&error).starts_with("plugin 01-p failed"), "{}", chain(&error));
    drop(operation);
    sleep(SECOND).await;
    let n_silent = nri.plugins().iter().filter(|plugin| plugin.state == State::Silent).count();
    assert_eq!(n_silent, 2, "who was asked is judged when its own time is over, and nobody else");
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_is_cut_short_is_told_its_whole_request_timeout() {
    let silent = plugins(30, Manner::Never, &Diary::default());
    let nri = with(TIMEOUT, &silent).await;
    create(&nri).await.0.unwrap();
    let told: Vec<_> = silent.iter().flat_map(|(_, plugin)| plugin.timeouts()).collect();
    assert_eq!(told, [Duration::from_millis(500); 21]);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_is_cut_short_keeps_its_lane_and_is_judged_once_for_it() {
    let diary = Diary::default();
    let mut all = plugins(10, Manner::Never, &diary);
    let slow = FakePlugin::new("80-slow", LIFE, Manner::After(Duration::from_millis(1200)), &diary);
    all.push(("80-slow".to_owned(), Arc::clone(&slow)));
    let nri = with(&TIMEOUT.replace("100", "3"), &all).await;
    create(&nri).await.0.unwrap();
    // Two request timeouts of the plugin have passed, and another request was made meanwhile.
    nri.begin(pod("q")).notify(Notice::RunPod).await.unwrap();
    sleep(SECOND).await;
    assert_eq!(slow.most_at_a_time(), 1);
    let status = nri.plugins().into_iter().find(|plugin| plugin.id.to_string() == "80-slow");
    assert_eq!(status.map(|plugin| plugin.state), Some(State::Active), "two strikes are not three");
}

#[tokio::test(start_paused = true)]
async fn plugins_whose_connections_break_while_they_are_silent_cost_a_request_its_budget() {
    let all = plugins(60, Manner::BreaksAfter(Duration::from_millis(490)), &Diary::default());
    let nri = with(TIMEOUT, &all).await;
    let (created, took) = create(&nri).await;
    created.unwrap();
    assert!(took <= BUDGET, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_required_plugin_in_the_middle_of_silent_ones_is_waited_for_and_fails_the_request_if_it_is_silent_too() {
    for (manner, takes) in [(Manner::After(Duration::from_millis(450)), 450), (Manner::Never, 500)] {
        let diary = Diary::default();
        let mut all = plugins(60, Manner::Never, &diary);
        all[30] = ("30-guard".to_owned(), FakePlugin::new("30-guard", LIFE, manner, &diary));
        let nri = with(&format!("{TIMEOUT}\nplugins.guard.required = true"), &all).await;
        let (created, took) = create(&nri).await;
        assert_eq!(took, BUDGET + Duration::from_millis(takes));
        assert_eq!(diary.lines().len(), 22, "21 for the budget, and the required one");
        let failed = created.err().map(|error| chain(&error));
        let by_name = "plugin 30-guard failed to handle CreateContainer request: no answer in time".to_owned();
        assert_eq!(failed, (takes == 500).then_some(by_name));
    }
}
