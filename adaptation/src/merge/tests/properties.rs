use std::collections::BTreeSet;

use nri_proto::{LinuxAdjustment, StopReply, arbitrary};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::merge::notes::ChangeNotes;
use crate::merge::spellings::Spellings;

/// Generates replies with few containers and keys and few changes, so that some replies conflict.
pub(super) fn reply() -> impl Strategy<Value = CreateReply> {
    (arbitrary::create_reply(), any::<u32>(), any::<u32>()).prop_map(|(mut reply, some, others)| {
        if let Some(adjustment) = &mut reply.adjustment {
            keep_some(adjustment, some & others);
        }
        for (n, update) in reply.updates.iter_mut().enumerate() {
            update.container_id = ["x", "y"][n % 2].to_owned();
            if let Some(linux) = &mut update.linux {
                keep_some_resources(&mut linux.resources, others >> n);
            }
        }
        reply
    })
}

/// Keeps the parts whose bits are set.
fn keep_some(adjustment: &mut Adjustment, bits: u32) {
    let mut bit = (0..32).map(|n| bits & (1 << n) != 0);
    let mut keep = || bit.next().unwrap_or_default();
    let nothing = Adjustment::default;
    let Adjustment { annotations, mounts, env, hooks, linux, rlimits, cdi_devices, args, unknown: _ } = adjustment;
    keep_if(keep(), annotations, nothing().annotations);
    keep_if(keep(), mounts, nothing().mounts);
    // A container cannot show where a name with `=` ends.
    let is_sound = env.iter().all(|(name, _)| !name.contains('='));
    keep_if(keep() && is_sound, env, nothing().env);
    keep_if(keep(), hooks, None);
    keep_if(keep(), rlimits, vec![]);
    keep_if(keep(), cdi_devices, vec![]);
    keep_if(keep(), args, nothing().args);
    let Some(linux) = linux else { return };
    let nothing = LinuxAdjustment::default;
    let LinuxAdjustment {
        devices,
        resources,
        cgroups_path,
        oom_score_adj,
        io_priority,
        seccomp_policy,
        namespaces,
        sysctl,
        net_devices,
        scheduler,
        rdt,
        memory_policy,
        unknown: _,
    } = linux;
    keep_if(keep(), devices, nothing().devices);
    keep_if(keep(), cgroups_path, String::new());
    keep_if(keep(), oom_score_adj, None);
    keep_if(keep(), io_priority, None);
    keep_if(keep(), seccomp_policy, None);
    keep_if(keep(), namespaces, nothing().namespaces);
    keep_if(keep(), sysctl, nothing().sysctl);
    keep_if(keep(), net_devices, nothing().net_devices);
    keep_if(keep(), scheduler, None);
    keep_if(keep(), rdt, None);
    keep_if(keep(), memory_policy, None);
    keep_some_resources(resources, bits >> 20);
}

fn keep_some_resources(resources: &mut Option<Resources>, bits: u32) {
    let Some(resources) = resources else { return };
    keep_if(bits & 1 != 0, &mut resources.memory, None);
    keep_if(bits & 2 != 0, &mut resources.cpu, None);
    keep_if(bits & 4 != 0, &mut resources.hugepage_limits, vec![]);
    keep_if(bits & 8 != 0, &mut resources.blockio_class, None);
    keep_if(bits & 16 != 0, &mut resources.pids, None);
    keep_if(bits & 32 != 0, &mut resources.rdt_class, None);
}

fn keep_if<T>(keep: bool, part: &mut T, nothing: T) {
    if !keep {
        *part = nothing;
    }
}

/// Generates a container with an id that no update uses.
pub(super) fn any_container() -> impl Strategy<Value = Container> {
    arbitrary::container().prop_map(|container| Container { id: NEW.to_owned(), ..container })
}

/// Applies all replies that are not refused. A refused reply must not change the merge.
fn apply_all(container: &Container, replies: &[CreateReply]) -> CreateMerge {
    let mut merge = CreateMerge::new(container.clone());
    for (n, reply) in replies.iter().enumerate() {
        let before = merge.clone();
        if merge.apply(&id(&format!("{n}0-x")), reply.clone()).is_err() {
            assert_eq!(merge, before, "a refused reply changed something");
        }
    }
    merge
}

proptest! {
    #[test]
    fn a_refused_reply_leaves_everything_as_it_was(container in any_container(), replies in vec(reply(), 1..5)) {
        apply_all(&container, &replies);
    }

    #[test]
    fn the_same_replies_give_the_same_result(container in any_container(), replies in vec(reply(), 1..5)) {
        prop_assert_eq!(apply_all(&container, &replies).finish(), apply_all(&container, &replies).finish());
    }

    #[test]
    fn what_is_shown_is_the_container_with_the_result_so_far(
        container in any_container(),
        mut replies in vec(reply(), 1..5),
    ) {
        // As upstream does, replaced arguments are shown as they are, even if they are empty or
        // have no command.
        for adjustment in replies.iter_mut().filter_map(|reply| reply.adjustment.as_mut()) {
            let list = adjustment.args.change().map(|change| change.into_value().unwrap_or_default());
            if list.is_some_and(|list| list.first().is_none_or(String::is_empty)) {
                adjustment.args = nri_proto::Args::default();
            }
        }
        let merge = apply_all(&container, &replies);
        let mut expected = CreateMerge::new(container);
        expected.adjust(&mut merge.clone().finish().adjustment, &mut ChangeNotes::none());
        prop_assert_eq!(merge.view(), expected.view());
    }

    #[test]
    fn what_is_touched_is_noted_and_owned(container in any_container(), reply in reply()) {
        let mut merge = CreateMerge::new(container.clone());
        let plugin = id("10-x");
        let Ok(applied) = merge.apply(&plugin, reply.clone()) else { return Ok(()) };
        let owners = merge.finish().owners;

        let mut adjustment = reply.adjustment.unwrap_or_default();
        Spellings::default().apply(&container, &plugin, &mut adjustment).unwrap();
        let touches = Touch::of_adjustment(&adjustment);
        let touched: BTreeSet<_> = touches.iter().map(|touch| (touch.field, touch.key)).collect();
        let own: Vec<_> = applied.changes.iter().filter(|change| change.container.is_none()).collect();
        let noted: BTreeSet<_> = own.iter().map(|change| (change.field, &*change.key)).collect();
        let is_rdt = |field| matches!(field, Field::RdtClosID | Field::RdtSchemata | Field::RdtEnableMonitoring);
        // For RDT fields, the visible change is noted.
        let touched_or_rdt = |(field, _): &&(Field, &str)| !is_rdt(*field);
        prop_assert!(noted.is_subset(&touched));
        prop_assert!(touched.iter().filter(touched_or_rdt).all(|touch| noted.contains(touch)));

        for change in own.iter().filter(|change| change.after.is_some()) {
            let is_rule = matches!(change.after, Some(Value::DeviceRules(_)));
            let owner = owners.owner(NEW, change.field, &change.key);
            prop_assert!(is_rule || owner.is_some_and(|owner| owner.plugins().eq([plugin.as_str()])), "{change:?}");
        }
    }

    #[test]
    fn a_refused_update_leaves_everything_as_it_was(
        requested in arbitrary::resources(),
        replies in vec(arbitrary::update_reply(), 1..5),
    ) {
        let mut update = UpdateMerge::new("", requested);
        let mut stop = StopMerge::new();
        for (n, reply) in replies.into_iter().enumerate() {
            let plugin = id(&format!("{n}0-x"));
            let stop_reply = StopReply { updates: reply.updates.clone(), ..StopReply::default() };
            let (before_update, before_stop) = (update.clone(), stop.clone());
            if update.apply(&plugin, reply).is_err() {
                prop_assert_eq!(&update, &before_update);
            }
            if stop.apply(&plugin, stop_reply).is_err() {
                prop_assert_eq!(&stop, &before_stop);
            }
        }
    }
}
