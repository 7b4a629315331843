//go:build !before_v0_12_4

package main

import (
	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
)

func init() {
	declaring = func(p *plugin) stub.Option {
		return stub.WithFailurePolicy(&api.FailurePolicy{
			FailRequest:   p.declared.failRequest,
			KeepConnected: p.declared.keepConnected,
		})
	}
}
