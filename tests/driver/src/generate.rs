//! Runs the spec generator. As in Go's driver, there are no classes, no CDI devices and no filters:
//! plugins may change every annotation and every kernel parameter.

use anyhow::{Context, Result};
use cri_domain::generator::host::{Allowlist, mount_propagation};
use cri_domain::generator::{Host, adjust};
use nri_proto::{Adjustment, api};

use crate::protocol::{Generate, Request};

pub(crate) fn generate(request: &Request) -> Result<Generate> {
    let message: api::ContainerAdjustment = request.adjust_b64.decode().context("adjust")?;
    let host = Host {
        allow: Allowlist::everything(),
        propagation: Some(Box::new(|path| Ok(mount_propagation(path)?))),
        ..Host::default()
    };
    let mut spec = request.spec.clone();
    adjust(&mut spec, &Adjustment::from(message), &host)?;
    Ok(Generate { spec })
}
