{{- define "headroom.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "headroom.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "headroom.labels" -}}
{{ include "headroom.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: headroom
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
{{- end -}}

{{- define "headroom.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "headroom.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* An image of ours: its root, then its name. */}}
{{- define "headroom.image" -}}
{{- $root := index . 0 -}}
{{- $registry := trimSuffix "/" $root.Values.image.registry -}}
{{- $digest := get $root.Values.image.digests (index . 1) -}}
{{- if $registry }}{{ $registry }}/{{ end }}{{ index . 1 }}{{ if $digest }}@{{ $digest }}{{ else }}:{{ default $root.Chart.AppVersion $root.Values.image.tag }}{{ end }}
{{- end -}}

{{/* What every process reads. */}}
{{- define "headroom.environment" -}}
- name: DATABASE_URL
  valueFrom:
    secretKeyRef:
      name: {{ required "database.existingSecret must name a Secret that holds the URL of your Postgres" .Values.database.existingSecret }}
      key: {{ .Values.database.key }}
{{- with .Values.redis.existingSecret }}
- name: REDIS_URL
  valueFrom:
    secretKeyRef:
      name: {{ . }}
      key: {{ $.Values.redis.key }}
{{- end }}
- name: HEADROOM_LOG_FORMAT
  value: json
{{- if and .Values.ingress.enabled (not (hasKey .Values.settings "HEADROOM_ALLOWED_HOSTS")) }}
- name: HEADROOM_ALLOWED_HOSTS
  value: {{ .Values.ingress.host }}
{{- end }}
{{- range $name, $value := .Values.settings }}
- name: {{ $name }}
  value: {{ $value | toString | quote }}
{{- end }}
{{- end -}}

{{/* What a pod of ours has in common: nobody's root, no token of the cluster, no variables of neighbouring services. */}}
{{- define "headroom.pod" -}}
automountServiceAccountToken: false
{{ include "headroom.podWithToken" . }}
{{- end -}}

{{/* The same but for the token: of a pod whose work is to ask the cluster. */}}
{{- define "headroom.podWithToken" -}}
# Kubernetes would set HEADROOM_PORT=tcp://… beside a Service that is named headroom.
enableServiceLinks: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile:
    type: RuntimeDefault
{{- end -}}

{{- define "headroom.container" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end -}}

{{/* A worker's container and volumes: root, image, arguments, resources, how much shared memory ("" for none). */}}
{{- define "headroom.worker" -}}
{{- $root := .root -}}
containers:
  - name: worker
    image: {{ include "headroom.image" (list $root .image) | quote }}
    imagePullPolicy: {{ $root.Values.image.pullPolicy }}
    args: {{ toJson .arguments }}
    env:
      {{- include "headroom.environment" $root | nindent 6 }}
    resources:
      {{- toYaml .resources | nindent 6 }}
    {{- include "headroom.container" $root | nindent 4 }}
    volumeMounts:
      - name: tmp
        mountPath: /tmp
      {{- if .shm }}
      - name: shm
        mountPath: /dev/shm
      {{- end }}
volumes:
  - name: tmp
    emptyDir: {}
  {{- if .shm }}
  - name: shm
    emptyDir:
      medium: Memory
      sizeLimit: {{ .shm }}
  {{- end }}
{{- end -}}

{{/* The pod of a worker of one kind of GPU: root, worker, resources. */}}
{{- define "headroom.gpuPod" -}}
{{- $root := .root -}}
{{- $defaults := $root.Values.gpuWorkerDefaults -}}
{{- $arguments := list "worker" "--device" "cuda" -}}
{{- if $root.Values.keda.enabled }}{{ $arguments = append $arguments "--burst" }}{{ end -}}
metadata:
  labels:
    {{- include "headroom.labels" $root | nindent 4 }}
    app.kubernetes.io/component: worker-gpu
    headroom/gpu: {{ .worker.gpu }}
spec:
  {{- if $root.Values.keda.enabled }}
  restartPolicy: Never
  {{- end }}
  serviceAccountName: {{ include "headroom.serviceAccount" $root }}
  {{- include "headroom.pod" $root | nindent 2 }}
  terminationGracePeriodSeconds: {{ $root.Values.workerTerminationGracePeriodSeconds }}
  {{- with default $defaults.runtimeClassName .worker.runtimeClassName }}
  runtimeClassName: {{ . }}
  {{- end }}
  {{- with .worker.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with default $defaults.tolerations .worker.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- include "headroom.worker" (dict "root" $root "image" "headroom-worker-cuda" "arguments" $arguments "resources" .resources "shm" $defaults.shmSize) | nindent 2 }}
{{- end -}}
