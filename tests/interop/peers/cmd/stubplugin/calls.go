package main

import (
	"errors"

	"github.com/containerd/nri/pkg/api"
)

// update asks the runtime for more processor time for some containers, and writes down what comes of it.
func (p *plugin) update(ids []string) {
	var updates []*api.ContainerUpdate
	for _, id := range ids {
		updates = append(updates, update(id, 123))
	}
	rejected, err := p.stub.UpdateContainers(updates)
	if err != nil {
		p.write(entry{"updated": ids, "error": err.Error()})
		return
	}
	failed := []string{}
	for _, update := range rejected {
		failed = append(failed, update.GetContainerId())
	}
	p.write(entry{"updated": ids, "failed": failed})
}

// evict asks the runtime to evict a container.
func (p *plugin) evict(id, reason string) error {
	if evicting == nil {
		return errors.New("this version of the stub cannot be made to evict")
	}
	p.lock.Lock()
	p.unasked = append(p.unasked, target{id, reason})
	p.lock.Unlock()
	if _, err := p.stub.UpdateContainers(nil); err != nil {
		return err
	}
	p.write(entry{"evicted": id})
	return nil
}

func (p *plugin) takeUnasked() []target {
	p.lock.Lock()
	defer p.lock.Unlock()
	taken := p.unasked
	p.unasked = nil
	return taken
}
