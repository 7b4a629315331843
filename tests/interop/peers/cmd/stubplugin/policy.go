//go:build !before_v0_12_4

package main

import (
	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
)

func (p *plugin) options() ([]stub.Option, error) {
	if p.declared == (policy{}) {
		return nil, nil
	}
	declared := &api.FailurePolicy{FailRequest: p.declared.failRequest, KeepConnected: p.declared.keepConnected}
	return []stub.Option{stub.WithFailurePolicy(declared)}, nil
}
