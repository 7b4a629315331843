//go:build !before_v0_10_0

package main

import (
	"strings"

	"github.com/containerd/nri/pkg/api"
)

func init() {
	// args=WORD WORD, and with a dash before them, whatever an earlier plugin has set.
	kinds["args"] = func(a *api.ContainerAdjustment, c change) error {
		if words := strings.Fields(c.name); c.removes {
			a.UpdateArgs(words)
		} else {
			a.SetArgs(words)
		}
		return nil
	}
}
