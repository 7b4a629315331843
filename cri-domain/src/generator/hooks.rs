use nri_proto::{Field, Hook, Hooks};
use serde_json::Value;

use super::document::{self, Object, new_object};
use super::{SpecError, check};

/// Appends OCI hooks to those of the spec.
pub(super) fn adjust(spec: &mut Object, hooks: &Hooks) -> Result<(), SpecError> {
    let Hooks { prestart, create_runtime, create_container, start_container, poststart, poststop, unknown: _ } = hooks;
    let moments = [
        ("prestart", prestart),
        ("createRuntime", create_runtime),
        ("createContainer", create_container),
        ("startContainer", start_container),
        ("poststart", poststart),
        ("poststop", poststop),
    ];
    for (moment, hooks) in moments {
        if !hooks.is_empty() {
            let made = hooks.iter().map(hook).collect::<Result<Vec<_>, _>>()?;
            document::list(spec, &["hooks", moment])?.extend(made);
        }
    }
    Ok(())
}

fn hook(hook: &Hook) -> Result<Value, SpecError> {
    let Hook { path, args, env, timeout, unknown: _ } = hook;
    let checked = check::field(Field::OciHooks, path);
    checked.path(path)?;
    checked.texts(args)?;
    checked.texts(env)?;
    checked.require(timeout.is_none_or(|seconds| seconds >= 0), "the timeout is below zero")?;
    // Go plugins without a timeout may send 0. A runtime would then kill the hook at once.
    let timeout = timeout.filter(|seconds| *seconds != 0);
    Ok(new_object([
        ("path", path.as_str().into()),
        ("args", args.as_slice().into()),
        ("env", env.as_slice().into()),
        ("timeout", timeout.into()),
    ]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{check, check_refused};
    use super::*;

    fn at(path: &str) -> Hook {
        Hook { path: path.to_owned(), ..Hook::default() }
    }

    #[test]
    fn hooks_run_after_those_that_are_there() {
        let full = Hook {
            args: vec!["hook".to_owned(), "x".to_owned()],
            env: vec!["A=1".to_owned()],
            timeout: Some(5),
            ..at("/bin/hook")
        };
        let hooks = Hooks {
            prestart: vec![at("/1")],
            create_runtime: vec![full],
            create_container: vec![at("/3")],
            start_container: vec![at("/4")],
            poststart: vec![at("/5")],
            poststop: vec![at("/6"), at("/7")],
            ..Hooks::default()
        };
        check(
            json!({"hooks": {"poststop": [{"path": "/0"}]}}),
            |it| it.hooks = Some(hooks),
            json!({"hooks": {
                "poststop": [{"path": "/0"}, {"path": "/6"}, {"path": "/7"}],
                "prestart": [{"path": "/1"}],
                "createRuntime": [{"path": "/bin/hook", "args": ["hook", "x"], "env": ["A=1"], "timeout": 5}],
                "createContainer": [{"path": "/3"}],
                "startContainer": [{"path": "/4"}],
                "poststart": [{"path": "/5"}],
            }}),
        );
    }

    #[test]
    fn u18_a_hook_is_a_program_with_an_absolute_path() {
        let with = |hook| {
            move |it: &mut nri_proto::Adjustment| it.hooks = Some(Hooks { poststop: vec![hook], ..Hooks::default() })
        };
        check_refused(with(at("bin/hook")), r#"OciHooks "bin/hook": the path is not absolute"#);
        check_refused(with(at("")), "OciHooks: the path is not absolute");
        let hasty = Hook { timeout: Some(-1), ..at("/hook") };
        check_refused(with(hasty), r#"OciHooks "/hook": the timeout is below zero"#);
    }

    #[test]
    fn a_timeout_of_nothing_is_none() {
        let hook = Hook { timeout: Some(0), ..at("/hook") };
        check(
            json!({}),
            |it| it.hooks = Some(Hooks { poststop: vec![hook], ..Hooks::default() }),
            json!({"hooks": {"poststop": [{"path": "/hook"}]}}),
        );
    }
}
