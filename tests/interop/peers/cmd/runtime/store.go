package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
)

// store is what the runtime runs, and what it writes down.
type store struct {
	diary
	pods       []*api.PodSandbox
	containers []*api.Container
}

func newStore(pods, containers, envBytes int) *store {
	s := &store{}
	for n := range pods {
		id := fmt.Sprint("p", n)
		s.pods = append(s.pods, &api.PodSandbox{Id: id, Name: id})
	}
	env := []string{"E=" + strings.Repeat("x", max(envBytes-len("E="), 0))}
	for n := range containers {
		id := fmt.Sprint("c", n)
		s.containers = append(s.containers, &api.Container{Id: id, Name: id, PodSandboxId: "p0", Env: env})
	}
	return s
}

func (s *store) synchronize(ctx context.Context, deliver adaptation.SyncCB) error {
	updates, err := deliver(ctx, s.pods, s.containers)
	told := []string{}
	for _, container := range s.containers {
		told = append(told, container.GetId())
	}
	e := entry{"synchronized": told, "updates": allWords(updates)}
	if err != nil {
		e["error"] = err.Error()
	}
	s.write(e)
	return err
}

func (s *store) update(_ context.Context, updates []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
	var failed []*api.ContainerUpdate
	names := []string{}
	for _, update := range updates {
		if !s.has(update.GetContainerId()) {
			failed = append(failed, update)
			names = append(names, update.GetContainerId())
		}
	}
	s.write(entry{"updates": allWords(updates), "failed": names})
	return failed, nil
}

func (s *store) has(id string) bool {
	for _, container := range s.containers {
		if container.GetId() == id {
			return true
		}
	}
	return false
}
