//go:build !before_v0_4_0

package main

import (
	"context"
	"path"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	"github.com/containerd/ttrpc"
	"google.golang.org/protobuf/proto"
)

// No stub lets a plugin evict, so it is added to what the stub answers and sends.
func init() {
	evicting = func(p *plugin) stub.Option {
		return stub.WithTTRPCOptions(
			[]ttrpc.ClientOpts{ttrpc.WithUnaryClientInterceptor(p.evictUnasked)},
			[]ttrpc.ServerOpt{ttrpc.WithUnaryServerInterceptor(p.evictInReplies)},
		)
	}
}

func (p *plugin) evictInReplies(ctx context.Context, unmarshal ttrpc.Unmarshaler, _ *ttrpc.UnaryServerInfo, method ttrpc.Method) (any, error) {
	reply, err := method(ctx, unmarshal)
	switch reply := reply.(type) {
	case *api.CreateContainerResponse:
		if reply != nil {
			reply.Evict = evictions(p.evictIn["CreateContainer"])
		}
	case *api.UpdateContainerResponse:
		if reply != nil {
			reply.Evict = evictions(p.evictIn["UpdateContainer"])
		}
	}
	return reply, err
}

func (p *plugin) evictUnasked(ctx context.Context, request *ttrpc.Request, response *ttrpc.Response, info *ttrpc.UnaryClientInfo, invoke ttrpc.Invoker) error {
	if path.Base(info.FullMethod) == "UpdateContainers" {
		var message api.UpdateContainersRequest
		if err := proto.Unmarshal(request.Payload, &message); err != nil {
			return err
		}
		message.Evict = evictions(p.takeUnasked())
		payload, err := proto.Marshal(&message)
		if err != nil {
			return err
		}
		request.Payload = payload
	}
	return invoke(ctx, request, response)
}

func evictions(wanted []target) []*api.ContainerEviction {
	var list []*api.ContainerEviction
	for _, t := range wanted {
		list = append(list, &api.ContainerEviction{ContainerId: t.container, Reason: t.value})
	}
	return list
}
