//go:build before_v0_4_0

package main

import "github.com/containerd/nri/pkg/api"

func (p *plugin) Configure(config, runtime, version string) (api.EventMask, error) {
	p.configured(config, runtime, version)
	return 0, nil
}

func (p *plugin) Synchronize(pods []*api.PodSandbox, containers []*api.Container) ([]*api.ContainerUpdate, error) {
	p.synchronized(pods, containers)
	return nil, nil
}

func (p *plugin) Shutdown(*api.ShutdownRequest) {
	p.shutDown()
}

func (p *plugin) RunPodSandbox(pod *api.PodSandbox) error {
	return p.heard("RunPodSandbox", pod, nil)
}

func (p *plugin) StopPodSandbox(pod *api.PodSandbox) error {
	return p.heard("StopPodSandbox", pod, nil)
}

func (p *plugin) RemovePodSandbox(pod *api.PodSandbox) error {
	return p.heard("RemovePodSandbox", pod, nil)
}

func (p *plugin) CreateContainer(pod *api.PodSandbox, container *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	return p.created(pod, container)
}

func (p *plugin) PostCreateContainer(pod *api.PodSandbox, container *api.Container) error {
	return p.heard("PostCreateContainer", pod, container)
}

func (p *plugin) StartContainer(pod *api.PodSandbox, container *api.Container) error {
	return p.heard("StartContainer", pod, container)
}

func (p *plugin) PostStartContainer(pod *api.PodSandbox, container *api.Container) error {
	return p.heard("PostStartContainer", pod, container)
}

func (p *plugin) UpdateContainer(pod *api.PodSandbox, container *api.Container) ([]*api.ContainerUpdate, error) {
	return p.answered("UpdateContainer", pod, container)
}

func (p *plugin) PostUpdateContainer(pod *api.PodSandbox, container *api.Container) error {
	return p.heard("PostUpdateContainer", pod, container)
}

func (p *plugin) StopContainer(pod *api.PodSandbox, container *api.Container) ([]*api.ContainerUpdate, error) {
	return p.answered("StopContainer", pod, container)
}

func (p *plugin) RemoveContainer(pod *api.PodSandbox, container *api.Container) error {
	return p.heard("RemoveContainer", pod, container)
}
