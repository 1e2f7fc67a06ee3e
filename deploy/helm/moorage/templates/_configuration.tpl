{{/* Puts the entries of .from into .into where it has none. merge would take false and 0 for missing. */}}
{{- define "moorage.fill" -}}
{{- range $key, $value := .from }}
{{- if not (hasKey $.into $key) }}
{{- $_ := set $.into $key $value }}
{{- end }}
{{- end }}
{{- end }}

{{- define "moorage.schedulerConfiguration" -}}
{{- $document := deepCopy .Values.config.scheduler }}
{{- $election := $document.leaderElection | default dict }}
{{- $own := dict "leaderElect" true "resourceName" (include "moorage.fullname" .) "resourceNamespace" .Release.Namespace }}
{{- include "moorage.fill" (dict "into" $election "from" $own) }}
{{- $_ := set $document "leaderElection" $election }}
{{- include "moorage.fill" (dict "into" $document "from" (dict "apiVersion" "kubescheduler.config.k8s.io/v1" "kind" "KubeSchedulerConfiguration")) }}
{{- toYaml $document }}
{{- end }}

{{/* The election of extender or keeper: the scheduler's, on a lease of its own. A component as in _helpers.tpl. */}}
{{- define "moorage.ownElection" -}}
{{- $election := deepCopy ((index .root.Values.config .component).leaderElection | default dict) }}
{{- $own := dict "resourceName" (include "moorage.componentName" .) "resourceNamespace" .root.Release.Namespace }}
{{- include "moorage.fill" (dict "into" $election "from" $own) }}
{{- $scheduler := (include "moorage.schedulerConfiguration" .root | fromYaml).leaderElection }}
{{- include "moorage.fill" (dict "into" $election "from" (omit $scheduler "resourceName" "resourceNamespace")) }}
{{- toYaml $election }}
{{- end }}

{{/* Profile that the others go by where there are several and none was named. */}}
{{- define "moorage.firstProfile" -}}
{{- with .Values.config.scheduler.profiles }}
{{- (first .).schedulerName | default "" }}
{{- end }}
{{- end }}

{{- define "moorage.extenderConfiguration" -}}
{{- $document := deepCopy .Values.config.extender }}
{{- $_ := set $document "leaderElection" (include "moorage.ownElection" (dict "root" . "component" "extender") | fromYaml) }}
{{- include "moorage.fill" (dict "into" $document "from" (dict "apiVersion" "moorage.dev/v1alpha1" "kind" "ExtenderConfiguration" "listen" "0.0.0.0:8888")) }}
{{- if .Values.extender.binds }}
{{- $_ := set $document "binds" true }}
{{- end }}
{{- with include "moorage.firstProfile" . }}
{{- include "moorage.fill" (dict "into" $document "from" (dict "profile" .)) }}
{{- end }}
{{- toYaml $document }}
{{- end }}

{{- define "moorage.webhookConfiguration" -}}
{{- $document := deepCopy .Values.config.webhook }}
{{- $name := include "moorage.componentName" (dict "root" . "component" "webhook") }}
{{- $own := dict "apiVersion" "moorage.dev/v1alpha1" "kind" "WebhookConfiguration" "listen" "0.0.0.0:9443" }}
{{- $_ := set $own "webhookName" $name }}
{{- $_ := set $own "serviceName" $name }}
{{- $_ := set $own "serviceNamespace" .Release.Namespace }}
{{- $_ := set $own "excludedNamespaces" .Values.webhook.excludedNamespaces }}
{{- include "moorage.fill" (dict "into" $document "from" $own) }}
{{- with include "moorage.firstProfile" . }}
{{- include "moorage.fill" (dict "into" $document "from" (dict "profile" .)) }}
{{- end }}
{{- toYaml $document }}
{{- end }}

{{- define "moorage.keeperConfiguration" -}}
{{- $document := deepCopy .Values.config.keeper }}
{{- $_ := set $document "leaderElection" (include "moorage.ownElection" (dict "root" . "component" "keeper") | fromYaml) }}
{{- include "moorage.fill" (dict "into" $document "from" (dict "apiVersion" "moorage.dev/v1alpha1" "kind" "KeeperConfiguration")) }}
{{- with include "moorage.firstProfile" . }}
{{- include "moorage.fill" (dict "into" $document "from" (dict "profile" .)) }}
{{- end }}
{{- toYaml $document }}
{{- end }}

{{- define "moorage.tracingConfiguration" -}}
{{- with .Values.tracing.endpoint -}}
apiVersion: moorage.dev/v1alpha1
kind: TracingConfiguration
endpoint: {{ . | quote }}
samplingRatePerMillion: {{ int $.Values.tracing.samplingRatePerMillion }}
{{- end }}
{{- end }}

{{- define "moorage.trialConfiguration" -}}
{{- $document := deepCopy .Values.config.trial }}
{{- include "moorage.fill" (dict "into" $document "from" (dict "apiVersion" "moorage.dev/v1alpha1" "kind" "TrialConfiguration")) }}
{{- toYaml $document }}
{{- end }}

{{/* The whole file. A trial is followed by the scheduler, and nothing to the others: none is restarted for it. */}}
{{- define "moorage.configurationFile" -}}
{{ include "moorage.configuration" . }}
{{- if .Values.config.trial }}
---
{{ include "moorage.trialConfiguration" . }}
{{- end }}
{{- end }}

{{/* The same without a trial. */}}
{{- define "moorage.configuration" -}}
{{ include "moorage.schedulerConfiguration" . }}
---
{{ include "moorage.extenderConfiguration" . }}
---
{{ include "moorage.webhookConfiguration" . }}
---
{{ include "moorage.keeperConfiguration" . }}
{{- with include "moorage.tracingConfiguration" . }}
---
{{ . }}
{{- end }}
{{- end }}

{{/* The keeper's own file, if it has profiles of its own. */}}
{{- define "moorage.configurationOfKeeper" -}}
{{- $values := deepCopy .Values }}
{{- $_ := set $values.config.scheduler "profiles" $values.keeper.profiles }}
{{- include "moorage.configuration" (dict "Values" $values "Release" .Release "Chart" .Chart) }}
{{- end }}

{{/* The ConfigMap of a component, as in _helpers.tpl. */}}
{{- define "moorage.configMapName" -}}
{{- if and (eq .component "keeper") .root.Values.keeper.profiles }}
{{- include "moorage.componentName" . }}
{{- else }}
{{- include "moorage.fullname" .root }}
{{- end }}
{{- end }}

{{/*
What of the file a running component cannot take over: the scheduler follows the file, except for its lease, its
connection and traces; the others read it once. A component as in _helpers.tpl.
*/}}
{{- define "moorage.configurationNeedingRestart" -}}
{{- if eq .component "scheduler" }}
{{- pick (include "moorage.schedulerConfiguration" .root | fromYaml) "leaderElection" "clientConnection" | toYaml }}
{{- include "moorage.tracingConfiguration" .root }}
{{- else if and (eq .component "keeper") .root.Values.keeper.profiles }}
{{- include "moorage.configurationOfKeeper" .root }}
{{- else }}
{{- include "moorage.configuration" .root }}
{{- end }}
{{- end }}
