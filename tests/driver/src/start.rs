//! The runtime, from its start to its end.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nri_adaptation::Metrics;
use nri_adaptation::config::{Config, DefaultValidator};
use nri_proto::PluginId;

use crate::builtin::Builtin;
use crate::layer::Layer;
use crate::lines::Lines;
use crate::metrics::Counts;
use crate::node::{Node, State, Syncs};
use crate::payload::Payload;
use crate::protocol::{self, Request};
use crate::watch::Watcher;

/// A running runtime.
pub(crate) struct Running {
    pub(crate) layer: Arc<Layer>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) watcher: Watcher,
    pub(crate) callbacks: bool,
    /// How many times synchronizations were blocked and not unblocked.
    pub(crate) blocks: usize,
}

impl Running {
    /// Starts a runtime. If that fails, nothing is left behind.
    pub(crate) async fn start(
        request: &Request,
        lines: &Lines,
        state: Arc<Mutex<State>>,
        syncs: &Arc<Syncs>,
        payload: Option<&Payload>,
    ) -> Result<Self> {
        let is_api = is_api(request)?;
        let builtin = builtin(request.builtin, payload)?;
        let node = Arc::new(Node::new(lines.clone(), request, state, Arc::clone(syncs)));
        let synced = is_api.then(|| Arc::clone(&node));
        let counts = Arc::new(Counts::new(Arc::clone(syncs), request.record_metrics, synced));
        let (config, metrics) = (config(request)?, Arc::clone(&counts) as Arc<dyn Metrics>);
        let layer = Arc::new(match is_api {
            true => Layer::api(config, &node, metrics)?,
            false => Layer::adaptation(config, &node, metrics),
        });
        let happenings = request.callbacks.then(|| layer.watch_plugins());
        let names: HashSet<PluginId> = builtin.iter().map(|(id, _)| id.clone()).collect();
        let running = Self {
            watcher: Watcher::start(happenings, lines.clone(), names),
            layer,
            counts,
            callbacks: request.callbacks,
            blocks: 0,
        };
        if let Err(error) = running.open(&node, builtin).await {
            running.stop().await;
            return Err(error);
        }
        Ok(running)
    }

    /// Admits the plugins of the start, and then plugins that connect.
    async fn open(&self, node: &Node, builtin: Vec<(PluginId, Builtin)>) -> Result<()> {
        let failure = node.begin_start().await;
        let launched = self.layer.open(builtin).await;
        node.end_start();
        launched?;
        if let Some(failure) = failure {
            bail!("failed to synchronize pre-installed NRI Plugins: {failure}");
        }
        self.counts.started(&self.layer);
        self.layer.listen()
    }

    /// Waits until all events so far were written.
    pub(crate) async fn told(&self) {
        if self.callbacks {
            self.counts.caught_up(&self.layer).await;
            self.watcher.told().await;
        }
    }

    pub(crate) async fn stop(self) {
        self.layer.stop().await;
        self.watcher.told().await;
    }
}

/// Returns whether requests go through `nri-api`.
fn is_api(request: &Request) -> Result<bool> {
    match request.layer.as_str() {
        "" | "adaptation" => Ok(false),
        "api" => Ok(true),
        other => bail!("unknown layer {other:?}"),
    }
}

fn builtin(count: usize, payload: Option<&Payload>) -> Result<Vec<(PluginId, Builtin)>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    ensure!(count <= 100, "there are indices for 100 plugins");
    let payload = payload.context("built-in plugins answer with the payloads")?;
    (0..count).map(|number| Ok((format!("{number:02}-builtin").parse()?, Builtin::new(payload, number)?))).collect()
}

fn config(request: &Request) -> Result<Config> {
    let mut config = Config::from_toml(&request.policy).context("policy")?;
    config.socket = (!request.socket.is_empty() && !request.disable_connections).then(|| request.socket.clone().into());
    let or = |text: &str, otherwise: &str| if text.is_empty() { otherwise.to_owned() } else { text.to_owned() };
    config.runtime_name = or(&request.name, "nri-driver");
    config.runtime_version = or(&request.version, "v0.0.0");
    if !request.nri_version.is_empty() {
        config.nri_version.clone_from(&request.nri_version);
    }
    config.plugin_path = (!request.plugin_path.is_empty()).then(|| request.plugin_path.clone().into());
    config.plugin_config_path =
        (!request.plugin_config_path.is_empty()).then(|| request.plugin_config_path.clone().into());
    if request.request_timeout_ms > 0 {
        config.policies.defaults.request_timeout = Some(Duration::from_millis(request.request_timeout_ms));
    }
    if request.registration_timeout_ms > 0 {
        config.registration_timeout = Duration::from_millis(request.registration_timeout_ms);
    }
    if let Some(strikes) = std::num::NonZeroU32::new(request.strikes) {
        config.policies.defaults.strikes = Some(strikes);
    }
    if let Some(validator) = &request.default_validator {
        config.default_validator = Some(default_validator(validator.clone()));
    }
    Ok(config)
}

fn default_validator(validator: protocol::DefaultValidator) -> DefaultValidator {
    DefaultValidator {
        enable: validator.enable,
        reject_oci_hook_adjustment: validator.reject_oci_hook_adjustment,
        reject_runtime_default_seccomp_adjustment: validator.reject_runtime_default_seccomp_adjustment,
        reject_unconfined_seccomp_adjustment: validator.reject_unconfined_seccomp_adjustment,
        reject_custom_seccomp_adjustment: validator.reject_custom_seccomp_adjustment,
        reject_namespace_adjustment: validator.reject_namespace_adjustment,
        reject_sysctl_adjustment: validator.reject_sysctl_adjustment,
        required_plugins: validator.required_plugins,
        tolerate_missing_plugins_annotation: validator.tolerate_missing_plugins_annotation,
    }
}
