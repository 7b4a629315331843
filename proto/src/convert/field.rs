//! Conversions of fields as values and as keys, and their numbers and names.

use std::collections::{BTreeMap, HashMap};

use protobuf::{Enum, EnumOrUnknown};

use super::{Translate, numbers};
use crate::model::{Field, Unnamed};
use crate::schema::api;

numbers! {
    api::Field as Field {
        None as None,
        Annotations as Annotations,
        Mounts as Mounts,
        OciHooks as OciHooks,
        Devices as Devices,
        CdiDevices as CdiDevices,
        Env as Env,
        Args as Args,
        MemLimit as MemLimit,
        MemReservation as MemReservation,
        MemSwapLimit as MemSwapLimit,
        MemKernelLimit as MemKernelLimit,
        MemTCPLimit as MemTCPLimit,
        MemSwappiness as MemSwappiness,
        MemDisableOomKiller as MemDisableOomKiller,
        MemUseHierarchy as MemUseHierarchy,
        CPUShares as CPUShares,
        CPUQuota as CPUQuota,
        CPUPeriod as CPUPeriod,
        CPURealtimeRuntime as CPURealtimeRuntime,
        CPURealtimePeriod as CPURealtimePeriod,
        CPUSetCPUs as CPUSetCPUs,
        CPUSetMems as CPUSetMems,
        PidsLimit as PidsLimit,
        HugepageLimits as HugepageLimits,
        BlockioClass as BlockioClass,
        RdtClass as RdtClass,
        CgroupsUnified as CgroupsUnified,
        CgroupsPath as CgroupsPath,
        OomScoreAdj as OomScoreAdj,
        Rlimits as Rlimits,
        IoPriority as IoPriority,
        SeccompPolicy as SeccompPolicy,
        Namespace as Namespace,
        Sysctl as Sysctl,
        LinuxNetDevices as LinuxNetDevices,
        LinuxSched as LinuxSched,
        RdtClosID as RdtClosID,
        RdtSchemata as RdtSchemata,
        RdtEnableMonitoring as RdtEnableMonitoring,
        MemoryPolicy as MemoryPolicy,
    }
}

impl Field {
    /// Returns all fields except [`Field::None`], ordered by number.
    pub fn all() -> impl Iterator<Item = Self> {
        api::Field::VALUES
            .iter()
            .map(|&field| EnumOrUnknown::new(field).translate())
            .filter(|&field| field != Self::None)
    }

    /// Returns the field that upstream calls `name`.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|field| field.to_string() == name)
    }

    /// Returns the number of the field on the wire.
    pub fn number(self) -> i32 {
        self.translate().value()
    }

    /// Returns the field with this number on the wire.
    pub fn of_number(number: i32) -> Self {
        EnumOrUnknown::<api::Field>::from_i32(number).translate()
    }
}

// Maps by field have numbers as keys on the wire, because protobuf allows no enums there.

impl<M: Translate<W>, W> Translate<BTreeMap<Field, W>> for HashMap<i32, M> {
    fn translate(self) -> BTreeMap<Field, W> {
        self.into_iter().map(|(number, value)| (Field::of_number(number), value.translate())).collect()
    }
}

impl<W: Translate<M>, M> Translate<HashMap<i32, M>> for BTreeMap<Field, W> {
    fn translate(self) -> HashMap<i32, M> {
        self.into_iter().map(|(field, value)| (field.number(), value.translate())).collect()
    }
}
