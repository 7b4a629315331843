package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/containerd/nri/pkg/api"
)

// target is a container that a reply asks to update or evict, and what goes with it: shares of a processor, or a reason.
type target struct{ container, value string }

// targets are a flag that may be given more than once: `EVENT:CONTAINER=VALUE`. They are kept by event.
type targets map[string][]target

func (t targets) String() string { return "" }

func (t targets) Set(text string) error {
	event, rest, ok := strings.Cut(text, ":")
	if !ok {
		return fmt.Errorf("EVENT:CONTAINER=VALUE expected, not %q", text)
	}
	container, value, _ := strings.Cut(rest, "=")
	t[event] = append(t[event], target{container, value})
	return nil
}

// updates are what the flags say about a reply.
func (t targets) updates(event string) ([]*api.ContainerUpdate, error) {
	var updates []*api.ContainerUpdate
	for _, wanted := range t[event] {
		shares, err := strconv.ParseUint(wanted.value, 10, 64)
		if err != nil {
			return nil, err
		}
		updates = append(updates, update(wanted.container, shares))
	}
	return updates, nil
}

func update(container string, shares uint64) *api.ContainerUpdate {
	update := &api.ContainerUpdate{}
	update.SetContainerId(container)
	update.SetLinuxCPUShares(shares)
	return update
}
