package main

import (
	"fmt"

	"github.com/containerd/nri/pkg/api"
)

// adjustment is what a plugin for a device typically wants: its variables, annotations, a
// mount, the device and a hook. Of the resources the first plugin sets those of the CPU, the
// second the memory, and others something of their own, so that no two are contrary.
func adjustment(index int) *api.ContainerAdjustment {
	a := &api.ContainerAdjustment{}
	name := fmt.Sprintf("accel%d", index)
	a.AddEnv(fmt.Sprintf("ACCEL%d_VISIBLE_DEVICES", index), "0,1")
	a.AddEnv(fmt.Sprintf("ACCEL%d_DRIVER_CAPABILITIES", index), "compute,utility")
	a.AddAnnotation(name+".example.org/allocated", "0,1")
	a.AddAnnotation(name+".example.org/topology", "numa-0")
	a.AddMount(&api.Mount{
		Destination: "/usr/local/" + name,
		Type:        "bind",
		Source:      "/var/lib/" + name + "/driver",
		Options:     []string{"rbind", "rprivate", "ro"},
	})
	a.AddDevice(&api.LinuxDevice{
		Path:     "/dev/" + name + "ctl",
		Type:     "c",
		Major:    240,
		Minor:    int64(index),
		FileMode: api.FileMode(0o660),
		Uid:      api.UInt32(0),
		Gid:      api.UInt32(44),
	})
	a.AddHooks(&api.Hooks{CreateRuntime: []*api.Hook{{
		Path: "/usr/local/bin/" + name + "-hook",
		Args: []string{name + "-hook", "create"},
		Env:  []string{"LOG_LEVEL=info"},
	}}})
	switch index {
	case 0:
		a.SetLinuxCPUShares(2048)
		a.SetLinuxCPUSetCPUs("0-3")
		a.SetLinuxCPUSetMems("0")
	case 1:
		a.SetLinuxMemoryLimit(1 << 30)
		a.SetLinuxMemorySwap(1 << 30)
	default:
		a.AddLinuxUnified("misc."+name, "1")
	}
	return a
}
