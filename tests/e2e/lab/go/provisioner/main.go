// provisioner makes a volume in a folder of this machine for every claim of a StorageClass with
// the provisioner "lab/local", lets it grow, and removes it after the claim.
//
// The volumes are of the type "local" and not "hostPath", because the kubelet gives only the
// former to a pod's fsGroup. The classes have to bind when the first pod is scheduled: a volume is
// tied to the node that was chosen then. Nothing keeps a volume within its size.
//
// Usage: provisioner KUBECONFIG FOLDER
package main

import (
	"context"
	"log"
	"os"
	"path/filepath"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	name     = "lab/local"
	interval = 500 * time.Millisecond
	// The controller manager sets these when a volume is wanted, and on which node.
	wantedFrom = "volume.kubernetes.io/storage-provisioner"
	wantedOn   = "volume.kubernetes.io/selected-node"
	madeBy     = "pv.kubernetes.io/provisioned-by"
)

type provisioner struct {
	api    kubernetes.Interface
	folder string
}

func main() {
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	p := provisioner{api: kubernetes.NewForConfigOrDie(config), folder: os.Args[2]}
	for ; ; time.Sleep(interval) {
		if err := p.once(context.Background()); err != nil {
			log.Print(err)
		}
	}
}

func (p provisioner) once(ctx context.Context) error {
	volumes, err := p.api.CoreV1().PersistentVolumes().List(ctx, meta.ListOptions{})
	if err != nil {
		return err
	}
	ours := map[string]*core.PersistentVolume{}
	for i := range volumes.Items {
		volume := &volumes.Items[i]
		if volume.Annotations[madeBy] == name {
			ours[volume.Name] = volume
		}
	}
	claims, err := p.api.CoreV1().PersistentVolumeClaims("").List(ctx, meta.ListOptions{})
	if err != nil {
		return err
	}
	for i := range claims.Items {
		claim := &claims.Items[i]
		if volume := ours[claim.Spec.VolumeName]; volume != nil {
			err = p.grow(ctx, claim, volume)
		} else if claim.Spec.VolumeName == "" && claim.Annotations[wantedFrom] == name {
			err = p.provide(ctx, claim)
		}
		if err != nil {
			return err
		}
	}
	for _, volume := range ours {
		if err := p.remove(ctx, volume); err != nil {
			return err
		}
	}
	return nil
}

// provide makes the folder and the volume that a claim waits for, once its node is known.
func (p provisioner) provide(ctx context.Context, claim *core.PersistentVolumeClaim) error {
	node := claim.Annotations[wantedOn]
	if node == "" {
		return nil
	}
	id := "pvc-" + string(claim.UID)
	path := filepath.Join(p.folder, id)
	if err := os.MkdirAll(path, 0o777); err != nil {
		return err
	}
	if err := os.Chmod(path, 0o777); err != nil { // whatever the umask is
		return err
	}
	on := core.NodeSelectorRequirement{
		Key: core.LabelHostname, Operator: core.NodeSelectorOpIn, Values: []string{node},
	}
	terms := []core.NodeSelectorTerm{{MatchExpressions: []core.NodeSelectorRequirement{on}}}
	volume := &core.PersistentVolume{
		ObjectMeta: meta.ObjectMeta{Name: id, Annotations: map[string]string{madeBy: name}},
		Spec: core.PersistentVolumeSpec{
			Capacity:                      claim.Spec.Resources.Requests,
			AccessModes:                   claim.Spec.AccessModes,
			VolumeMode:                    claim.Spec.VolumeMode,
			StorageClassName:              *claim.Spec.StorageClassName,
			PersistentVolumeReclaimPolicy: core.PersistentVolumeReclaimDelete,
			PersistentVolumeSource: core.PersistentVolumeSource{
				Local: &core.LocalVolumeSource{Path: path},
			},
			ClaimRef: &core.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim",
				Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			NodeAffinity: &core.VolumeNodeAffinity{
				Required: &core.NodeSelector{NodeSelectorTerms: terms},
			},
		},
	}
	_, err := p.api.CoreV1().PersistentVolumes().Create(ctx, volume, meta.CreateOptions{})
	if errors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// grow gives a claim that asks for more what it asks for: first the volume, then the claim.
func (p provisioner) grow(
	ctx context.Context, claim *core.PersistentVolumeClaim, volume *core.PersistentVolume,
) error {
	wanted := claim.Spec.Resources.Requests[core.ResourceStorage]
	has := claim.Status.Capacity[core.ResourceStorage]
	if claim.Status.Phase != core.ClaimBound || wanted.Cmp(has) <= 0 {
		return nil
	}
	if size := volume.Spec.Capacity[core.ResourceStorage]; wanted.Cmp(size) > 0 {
		volume.Spec.Capacity[core.ResourceStorage] = wanted
		_, err := p.api.CoreV1().PersistentVolumes().Update(ctx, volume, meta.UpdateOptions{})
		if err != nil {
			return err
		}
	}
	claim.Status.Capacity[core.ResourceStorage] = wanted
	claim.Status.Conditions = nil
	claims := p.api.CoreV1().PersistentVolumeClaims(claim.Namespace)
	_, err := claims.UpdateStatus(ctx, claim, meta.UpdateOptions{})
	return err
}

// remove deletes a volume whose claim is gone, with its data.
func (p provisioner) remove(ctx context.Context, volume *core.PersistentVolume) error {
	if volume.Status.Phase != core.VolumeReleased ||
		volume.Spec.PersistentVolumeReclaimPolicy != core.PersistentVolumeReclaimDelete {
		return nil
	}
	if err := os.RemoveAll(volume.Spec.Local.Path); err != nil {
		return err
	}
	err := p.api.CoreV1().PersistentVolumes().Delete(ctx, volume.Name, meta.DeleteOptions{})
	if errors.IsNotFound(err) {
		return nil
	}
	return err
}
