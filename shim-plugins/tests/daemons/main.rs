//! Tests of `hello_shim` under the real containerds of `tests/interop/daemons`, which
//! `make conformance` builds.
//!
//! The tests take root and a minute, so they run with `NRI_LONG` only. A test that cannot run
//! prints why and passes, unless `NRI_REQUIRE_DAEMONS` is set. After each test nothing may be left:
//! no process, no mount, no socket, no cgroup.

#![allow(clippy::unwrap_used, clippy::panic, reason = "these are tests, and what they share")]

#[cfg(feature = "grpc")]
mod caller;
mod daemon;
mod kills;
mod stories;

use daemon::Daemon;

const VERSIONS: [&str; 5] = ["debian-1.6", "v1.7.35", "v2.0.14", "v2.3.7", "v2.4.2"];

/// This story waits for real time, so it runs for all daemons at once, and before other stories.
mod all_at_once {
    use super::{Daemon, VERSIONS, stories};

    #[test]
    fn g15_what_happens_while_the_daemon_is_away_is_told_after() {
        std::thread::scope(|scope| {
            for version in VERSIONS {
                let tell = move || {
                    if let Some(mut daemon) = Daemon::start(version) {
                        stories::what_happens_while_the_daemon_is_away_is_told_after(&mut daemon);
                        daemon.nothing_is_left();
                    }
                };
                std::thread::Builder::new().name(version.to_owned()).spawn_scoped(scope, tell).unwrap();
            }
        });
    }
}

/// This story takes long, so it runs under the newest daemon only.
mod at_random {
    use super::{Daemon, kills};

    #[test]
    fn g05_a_start_and_a_server_that_are_killed_at_random_moments_leave_nothing() {
        if let Some(mut daemon) = Daemon::start("v2.4.2") {
            kills::a_start_and_a_server_that_are_killed_at_random_moments_leave_nothing(&mut daemon);
            daemon.nothing_is_left();
        }
    }
}

/// Defines a test for each story under each daemon.
macro_rules! under {
    ($($name:ident $version:literal)*) => {$(
        mod $name {
            #[cfg(feature = "grpc")]
            under! { @stories $version go_calls_over_grpc_what_containerd_calls_over_ttrpc }
            under! { @stories $version
                a_container_runs_and_its_output_code_and_events_arrive
                its_own_service_is_served_beside_task
                containers_of_a_group_share_a_shim
                g06_a_shim_that_is_killed_is_cleaned_up_after
                a_shim_that_is_told_to_end_takes_its_container_with_it_and_tells_how_it_ended
                a_start_that_is_cancelled_leaves_nothing
                processes_whose_first_one_is_gone_are_ended_too
                g07_a_daemon_that_is_killed_before_create_finds_nothing_left
                g11_calls_that_come_twice_at_once_and_out_of_order_are_answered
                g10_a_daemon_that_is_restarted_finds_its_containers_again
                g08_an_exit_while_the_daemon_is_down_is_reported_after
                an_orphan_that_dies_is_collected
                a_start_that_fails_in_any_phase_says_why_and_leaves_nothing
                twenty_containers_at_once
            }
        }
    )*};
    (@stories $version:literal $($story:ident)*) => {$(
        #[test]
        fn $story() {
            if let Some(mut daemon) = crate::Daemon::start($version) {
                crate::stories::$story(&mut daemon);
                daemon.nothing_is_left();
            }
        }
    )*};
}

under! {
    containerd_1_6 "debian-1.6"
    containerd_1_7 "v1.7.35"
    containerd_2_0 "v2.0.14"
    containerd_2_3 "v2.3.7"
    containerd_2_4 "v2.4.2"
}
