package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/containerd/nri/pkg/api"
)

// state is where a pod or container is in its life. Those that are absent have no entry.
type state string

const (
	absent  state = "absent"
	created state = "created"
	running state = "running"
	stopped state = "stopped"
)

// Annotations with which the runtime of the test says more than the protocol does.
const (
	// runAnnotation is the number of the container's run.
	runAnnotation = "run"
	// startedAnnotation is the number of the last run that was started without a failure.
	startedAnnotation = "started"
	// refuseAnnotation is the index of the plugin that does not let the container start.
	refuseAnnotation = "refuse"
)

// books are what a plugin knows. Handlers of different pods may be called at the same time.
type books struct {
	sync.Mutex
	Synchronized bool             `json:"synchronized"`
	Pods         map[string]state `json:"pods"`
	Containers   map[string]state `json:"containers"`
	// Wrong is what did not fit to what was known.
	Wrong []string `json:"wrong"`
	// Heard is how many events there were.
	Heard int `json:"heard"`

	podOf map[string]string
	// lives are the events that each object was in.
	lives map[string][]string
}

func newBooks() *books {
	return &books{Pods: map[string]state{}, Containers: map[string]state{}, Wrong: []string{}, podOf: map[string]string{}, lives: map[string][]string{}}
}

func (b *books) write(out *json.Encoder) error {
	b.Lock()
	defer b.Unlock()
	return out.Encode(b)
}

// open begins the books with what there is.
func (b *books) open(pods []*api.PodSandbox, containers []*api.Container) {
	b.Lock()
	defer b.Unlock()
	if b.Heard > 0 && !b.Synchronized {
		b.wrong("Synchronize comes after %d events", b.Heard)
	}
	// A plugin for which more happened than is kept while it joined begins anew.
	b.Pods, b.Containers = map[string]state{}, map[string]state{}
	b.podOf, b.lives = map[string]string{}, map[string][]string{}
	b.Synchronized = true
	for _, pod := range pods {
		b.note(b.Pods, "Synchronize: pod", pod.GetId(), running, absent)
	}
	for _, container := range containers {
		now, isKnown := map[api.ContainerState]state{
			api.ContainerState_CONTAINER_CREATED: created,
			api.ContainerState_CONTAINER_RUNNING: running,
			api.ContainerState_CONTAINER_PAUSED:  running,
		}[container.GetState()]
		if !isKnown {
			b.wrong("Synchronize: container %s is %s", container.GetId(), container.GetState())
		}
		if b.Pods[container.GetPodSandboxId()] != running {
			b.wrong("Synchronize: container %s has no pod", container.GetId())
		}
		b.podOf[container.GetId()] = container.GetPodSandboxId()
		b.note(b.Containers, "Synchronize: container", container.GetId(), now, absent)
	}
}

// podIs takes note of a pod's new state, which can follow on these.
func (b *books) podIs(event string, pod *api.PodSandbox, now state, before ...state) {
	b.Lock()
	defer b.Unlock()
	b.heard(event)
	if now == stopped {
		for id, state := range b.Containers {
			if state != stopped && b.podOf[id] == pod.GetId() {
				b.wrong("%s: container %s of pod %s is %s", event, id, pod.GetId(), state)
			}
		}
	}
	b.note(b.Pods, event, pod.GetId(), now, before...)
}

// startsContainer takes note of a start. Only a restart may be of a container that is stopped, or that had stopped before
// we came.
func (b *books) startsContainer(event string, container *api.Container) {
	if container.GetAnnotations()[runAnnotation] == "1" {
		b.containerIs(event, container, running, created)
	} else {
		b.containerIs(event, container, running, stopped, absent)
	}
}

// stopsContainer takes note of a stop: one for each run, and none of what we were not told of.
func (b *books) stopsContainer(event string, container *api.Container) {
	if container.GetAnnotations()[startedAnnotation] != "" {
		// It has run, so we were shown it as running, or told of its start.
		b.containerIs(event, container, stopped, running)
	} else {
		b.containerIs(event, container, stopped, created, running)
	}
}

// updates takes note of an update. A runtime may say it of a container that has stopped, which we need not know.
func (b *books) updates(event string) {
	b.Lock()
	defer b.Unlock()
	b.heard(event)
}

// containerIs takes note of a container's new state, which can follow on these.
func (b *books) containerIs(event string, container *api.Container, now state, before ...state) {
	b.Lock()
	defer b.Unlock()
	b.heard(event)
	b.podOf[container.GetId()] = container.GetPodSandboxId()
	if (now == created || now == running) && b.Pods[container.GetPodSandboxId()] != running {
		b.wrong("%s: the pod of container %s does not run", event, container.GetId())
	}
	b.note(b.Containers, event, container.GetId(), now, before...)
	if now == absent {
		delete(b.podOf, container.GetId())
	}
}

func (b *books) note(all map[string]state, event, id string, now state, before ...state) {
	was, isKnown := all[id]
	if !isKnown {
		was = absent
	}
	if !slices.Contains(before, was) {
		b.wrong("%s: %s was %s after %v", event, id, was, b.lives[id])
	}
	b.lives[id] = append(b.lives[id], event)
	if now == absent {
		delete(all, id)
		delete(b.lives, id)
	} else {
		all[id] = now
	}
}

func (b *books) heard(event string) {
	b.Heard++
	if !b.Synchronized {
		b.wrong("%s comes before Synchronize", event)
	}
}

// wrong keeps the first few: one mistake has many followers.
func (b *books) wrong(format string, args ...any) {
	if len(b.Wrong) < 20 {
		b.Wrong = append(b.Wrong, fmt.Sprintf(format, args...))
	}
}
