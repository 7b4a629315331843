//go:build !before_v0_10_0

package main

import (
	"context"
	"errors"

	"github.com/containerd/nri/pkg/api"
)

// rejecting is the annotation of a pod whose containers a validator rejects, for the reason that is its value.
const rejecting = "stubplugin/reject"

func init() {
	validating = func(p *plugin) any { return validator{p} }
}

// validator is a plugin that also validates. The others do not subscribe to it.
type validator struct{ *plugin }

func (v validator) ValidateContainerAdjustment(_ context.Context, request *api.ValidateContainerAdjustmentRequest) error {
	asked, updated := []string{}, []string{}
	for _, plugin := range request.GetPlugins() {
		asked = append(asked, plugin.GetIndex()+"-"+plugin.GetName())
	}
	for _, update := range request.GetUpdate() {
		updated = append(updated, update.GetContainerId())
	}
	v.write(entry{
		"heard":     "ValidateContainerAdjustment",
		"pod":       request.GetPod().GetId(),
		"container": request.GetContainer().GetId(),
		"plugins":   asked,
		"env":       environment(request.GetAdjust().GetEnv()),
		"owners":    owners(request),
		"updates":   updated,
	})
	if err := v.behave("ValidateContainerAdjustment", request.GetContainer()); err != nil {
		return err
	}
	if reason := request.GetPod().GetAnnotations()[rejecting]; reason != "" {
		return errors.New(reason)
	}
	return nil
}

// owners are those of the environment.
func owners(request *api.ValidateContainerAdjustmentRequest) map[string]string {
	list := map[string]string{}
	for _, variable := range request.GetAdjust().GetEnv() {
		name := variable.GetKey()
		if owner, ok := request.GetOwners().EnvOwner(request.GetContainer().GetId(), name); ok {
			list[name] = owner
		}
	}
	return list
}

func environment(variables []*api.KeyValue) []string {
	lines := []string{}
	for _, variable := range variables {
		lines = append(lines, variable.GetKey()+"="+variable.GetValue())
	}
	return lines
}
