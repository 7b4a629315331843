//go:build !before_v0_10_0

package main

import "github.com/containerd/nri/pkg/adaptation"

func init() {
	relays["UpdatePodSandbox"] = question((*adaptation.Adaptation).UpdatePodSandbox)
	relays["PostUpdatePodSandbox"] = notice((*adaptation.Adaptation).PostUpdatePodSandbox)
}
