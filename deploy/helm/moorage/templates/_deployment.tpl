{{/*
A component's Deployment. Beside root and component: args (a list), ports (name -> number), probes (fields of the
container), tlsSecret (mounted at /etc/moorage-tls if it is not empty) and clientCASecret (its ca.crt at
/etc/moorage-client-ca).
*/}}
{{- define "moorage.deployment" -}}
{{- $root := .root }}
{{- $values := index .root.Values .component }}
{{- $name := include "moorage.componentName" . }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "moorage.componentLabels" . | nindent 4 }}
spec:
  replicas: {{ $values.replicaCount }}
  {{- if eq .component "extender" }}
  # A new pod is not ready before the old one has given up its lease.
  strategy:
    type: Recreate
  {{- else }}
  # Two replicas never share a node, so on two nodes there is no room for a third.
  strategy:
    type: RollingUpdate
    rollingUpdate:
      maxSurge: 0
      maxUnavailable: 1
  {{- end }}
  selector:
    matchLabels:
      {{- include "moorage.selectorLabels" . | nindent 6 }}
  template:
    metadata:
      {{- if or $root.Values.config.restartOnChange $values.podAnnotations }}
      annotations:
        {{- if $root.Values.config.restartOnChange }}
        checksum/config: {{ include "moorage.configurationNeedingRestart" . | sha256sum }}
        {{- end }}
        {{- with $values.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- end }}
      labels:
        {{- include "moorage.selectorLabels" . | nindent 8 }}
        {{- with $root.Values.commonLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        {{- with $values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      {{- with $root.Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      serviceAccountName: {{ include "moorage.serviceAccountName" . }}
      automountServiceAccountToken: true
      enableServiceLinks: false
      {{- with include "moorage.priorityClassName" $root }}
      priorityClassName: {{ . }}
      {{- end }}
      securityContext:
        {{- toYaml $root.Values.podSecurityContext | nindent 8 }}
      {{- with merge (dict) $values.nodeSelector $root.Values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with concat $root.Values.tolerations $values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      affinity:
        {{- include "moorage.affinity" . | nindent 8 }}
      {{- with $values.topologySpreadConstraints }}
      topologySpreadConstraints:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
        - name: {{ .component }}
          image: {{ include "moorage.image" $root | quote }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          args:
            {{- range .args }}
            - {{ . | quote }}
            {{- end }}
            - --v={{ $root.Values.logging.level }}
            - --log-format={{ $root.Values.logging.format }}
            {{- range $values.extraArgs }}
            - {{ . | quote }}
            {{- end }}
          {{- if eq .component "scheduler" }}
          # Events about its own configuration are about this pod.
          env:
            {{- range $name, $field := dict "POD_NAME" "metadata.name" "POD_NAMESPACE" "metadata.namespace" "POD_UID" "metadata.uid" }}
            - name: {{ $name }}
              valueFrom:
                fieldRef:
                  fieldPath: {{ $field }}
            {{- end }}
            {{- with $root.Values.tracing.extraEnv }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          {{- end }}
          ports:
            {{- range $port, $number := .ports }}
            - name: {{ $port }}
              containerPort: {{ $number }}
            {{- end }}
          {{- toYaml .probes | nindent 10 }}
          resources:
            {{- toYaml $values.resources | nindent 12 }}
          securityContext:
            {{- toYaml $root.Values.securityContext | nindent 12 }}
          volumeMounts:
            - name: config
              mountPath: /etc/moorage
              readOnly: true
            {{- if .tlsSecret }}
            - name: tls
              mountPath: /etc/moorage-tls
              readOnly: true
            {{- end }}
            {{- if .clientCASecret }}
            - name: client-ca
              mountPath: /etc/moorage-client-ca
              readOnly: true
            {{- end }}
            - name: tmp
              mountPath: /tmp
      volumes:
        - name: config
          configMap:
            name: {{ include "moorage.configMapName" . }}
        {{- with .tlsSecret }}
        - name: tls
          secret:
            secretName: {{ . }}
        {{- end }}
        {{- with .clientCASecret }}
        - name: client-ca
          secret:
            secretName: {{ . }}
            items:
              - key: ca.crt
                path: ca.crt
        {{- end }}
        - name: tmp
          emptyDir:
            sizeLimit: 16Mi
{{- end }}

{{/* Replicas stand on different nodes, and on none that an autoscaler may take away. */}}
{{- define "moorage.affinity" -}}
{{- $values := index .root.Values .component }}
{{- if $values.affinity }}
{{- toYaml $values.affinity }}
{{- else }}
{{- if .root.Values.avoidKarpenterNodes -}}
nodeAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
      - matchExpressions:
          - key: karpenter.sh/nodepool
            operator: DoesNotExist
{{- end }}
podAntiAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    - topologyKey: kubernetes.io/hostname
      labelSelector:
        matchLabels:
          {{- include "moorage.selectorLabels" . | nindent 10 }}
{{- end }}
{{- end }}

{{/* Probes on a port by name; .scheme is HTTP or HTTPS, .live the path of the liveness probe. */}}
{{- define "moorage.probes" -}}
startupProbe:
  httpGet: {path: {{ .live }}, port: {{ .port }}, scheme: {{ .scheme }}}
  periodSeconds: 2
  timeoutSeconds: 5
  failureThreshold: 60
livenessProbe:
  httpGet: {path: {{ .live }}, port: {{ .port }}, scheme: {{ .scheme }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: {{ .port }}, scheme: {{ .scheme }}}
  periodSeconds: {{ .every | default 5 }}
  timeoutSeconds: 5
  failureThreshold: {{ .failures | default 3 }}
{{- end }}

{{- define "moorage.serviceAccount" -}}
{{- $account := (index .root.Values .component).serviceAccount }}
{{- if $account.create }}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "moorage.serviceAccountName" . }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "moorage.componentLabels" . | nindent 4 }}
  {{- with $account.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
# The pods ask for the token themselves.
automountServiceAccountToken: false
{{- end }}
{{- end }}

{{- define "moorage.podDisruptionBudget" -}}
{{- $budget := (index .root.Values .component).podDisruptionBudget }}
{{- if $budget.enabled }}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "moorage.componentName" . }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "moorage.componentLabels" . | nindent 4 }}
spec:
  maxUnavailable: {{ $budget.maxUnavailable }}
  # A replica that is not ready holds up no drain.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "moorage.selectorLabels" . | nindent 6 }}
{{- end }}
{{- end }}

{{/* A Service; .servicePorts is a list of ports. */}}
{{- define "moorage.service" -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ include "moorage.componentName" . }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "moorage.componentLabels" . | nindent 4 }}
  {{- with (index .root.Values .component).service.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  type: ClusterIP
  selector:
    {{- include "moorage.selectorLabels" . | nindent 4 }}
  ports:
    {{- range $port := .servicePorts }}
    - name: {{ $port.name }}
      port: {{ $port.port }}
      targetPort: {{ $port.name }}
      protocol: TCP
    {{- end }}
{{- end }}
