//go:build !before_v0_4_0

package main

import (
	"strconv"

	"github.com/containerd/nri/pkg/api"
)

func init() {
	kinds["rlimit"] = func(a *api.ContainerAdjustment, c change) error {
		limit, err := strconv.ParseUint(c.value, 10, 64)
		if err == nil {
			a.AddRlimit(c.name, limit, limit)
		}
		return err
	}
}
