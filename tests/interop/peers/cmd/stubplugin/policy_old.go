//go:build before_v0_12_4

package main

import (
	"errors"

	"github.com/containerd/nri/pkg/stub"
)

func (p *plugin) options() ([]stub.Option, error) {
	if p.declared != (policy{}) {
		return nil, errors.New("this version of the stub cannot declare anything about failures")
	}
	return nil, nil
}
