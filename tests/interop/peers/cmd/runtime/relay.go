package main

import (
	"context"
	"fmt"

	"github.com/containerd/nri/pkg/adaptation"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// relays are the requests that this version has; the file with a build tag adds those that not all have. What notices take is a
// message for each since v0.12.0, and one for all of them before.
var relays = map[string]func(nri *adaptation.Adaptation, request []byte) (proto.Message, error){
	"CreateContainer": question((*adaptation.Adaptation).CreateContainer),
	"UpdateContainer": question((*adaptation.Adaptation).UpdateContainer),
	"StopContainer":   question((*adaptation.Adaptation).StopContainer),

	"RunPodSandbox":       notice((*adaptation.Adaptation).RunPodSandbox),
	"StopPodSandbox":      notice((*adaptation.Adaptation).StopPodSandbox),
	"RemovePodSandbox":    notice((*adaptation.Adaptation).RemovePodSandbox),
	"PostCreateContainer": notice((*adaptation.Adaptation).PostCreateContainer),
	"StartContainer":      notice((*adaptation.Adaptation).StartContainer),
	"PostStartContainer":  notice((*adaptation.Adaptation).PostStartContainer),
	"PostUpdateContainer": notice((*adaptation.Adaptation).PostUpdateContainer),
	"RemoveContainer":     notice((*adaptation.Adaptation).RemoveContainer),
}

func relay(nri *adaptation.Adaptation, name string, request []byte) (proto.Message, error) {
	relay, ok := relays[name]
	if !ok {
		return nil, fmt.Errorf("this version has no request %q", name)
	}
	return relay(nri, request)
}

// message is a pointer to a message.
type message[T any] interface {
	*T
	proto.Message
}

func question[Q, A any, M message[Q], R message[A]](ask func(*adaptation.Adaptation, context.Context, M) (R, error)) func(*adaptation.Adaptation, []byte) (proto.Message, error) {
	return func(nri *adaptation.Adaptation, text []byte) (proto.Message, error) {
		request := M(new(Q))
		if err := protojson.Unmarshal(text, request); err != nil {
			return nil, err
		}
		reply, err := ask(nri, context.Background(), request)
		if err != nil {
			return nil, err
		}
		return reply, nil
	}
}

func notice[Q any, M message[Q]](tell func(*adaptation.Adaptation, context.Context, M) error) func(*adaptation.Adaptation, []byte) (proto.Message, error) {
	return func(nri *adaptation.Adaptation, text []byte) (proto.Message, error) {
		request := M(new(Q))
		if err := protojson.Unmarshal(text, request); err != nil {
			return nil, err
		}
		return nil, tell(nri, context.Background(), request)
	}
}
