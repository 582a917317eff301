#!/bin/sh
# Process 1 of a real node: what a machine does when it boots. unshare(1) has given it namespaces of its own, in which no
# mount reaches the host; it ends when the machine is switched off, and everything in the node with it.
set -eu

# From here on the node's processes are counted in its own cgroup.
echo 0 > "/sys/fs/cgroup/pids$CGROUP/system/cgroup.procs"
hostname "$NODE"
ip link set lo up
echo 1 > /proc/sys/net/ipv4/ip_forward

# What the programs keep at fixed paths is the node's own: /run and most of /var are forgotten at each boot, as are the
# addresses of pods; the kubelet's files and the logs of pods are on the node's disk.
mount -t tmpfs -o mode=755 tmpfs /run
for folder in /var/lib /var/log; do
  mkdir -p "/run/upper$folder" "/run/work$folder"
  mount -t overlay -o "lowerdir=$folder,upperdir=/run/upper$folder,workdir=/run/work$folder" overlay "$folder"
done
for folder in /var/lib/kubelet /var/log/pods; do
  mkdir -p "$folder" "$DISK$folder"
  mount --bind "$DISK$folder" "$folder"
done
mount --make-rshared /var/lib/kubelet
mount --make-rshared /run

# The kubelet insists on these settings of the whole machine. It gets files to write to instead.
mkdir -p /run/sysctl
for setting in vm.overcommit_memory=1 vm.panic_on_oom=0 kernel.panic=10 kernel.panic_on_oops=1 \
  kernel.keys.root_maxkeys=1000000 kernel.keys.root_maxbytes=25000000; do
  name=${setting%=*}
  path=/proc/sys/$(echo "$name" | tr . /)
  echo "${setting#*=}" > "/run/sysctl/$name"
  if [ -e "$path" ]; then mount --bind "/run/sysctl/$name" "$path"; fi
done
echo "$BOOT_ID" > /run/boot-id
mount --bind /run/boot-id /proc/sys/kernel/random/boot_id
if [ -e /etc/machine-id ]; then
  echo "$MACHINE_ID" > /run/machine-id
  mount --bind /run/machine-id /etc/machine-id
fi

containerd --config "$SETTINGS/containerd.toml" >> "$LOGS-containerd.log" 2>&1 &
until ctr --connect-timeout 1s version > /dev/null 2>&1; do sleep 0.05; done
ctr --namespace k8s.io images import "$IMAGES" > /dev/null

# The link is put in from outside.
until ip -4 address show dev eth0 2> /dev/null | grep -q inet; do sleep 0.05; done
"$KUBELET" --config "$SETTINGS/kubelet.json" --kubeconfig "$KUBECONFIG_OF_NODE" --hostname-override "$NODE" \
  --node-ip "$ADDRESS" --node-labels "$LABELS" --root-dir /var/lib/kubelet --v=2 >> "$LOGS-kubelet.log" 2>&1 &
if [ "$GPUS" -gt 0 ]; then
  # The kubelet makes the folder that the plugin's socket is in.
  mkdir -p /var/lib/kubelet/device-plugins
  "$GPU_PLUGIN" --count "$GPUS" --prefix "$NODE-gpu" >> "$LOGS-gpu-plugin.log" 2>&1 &
fi
# As process 1 it also takes in what others leave behind.
wait
