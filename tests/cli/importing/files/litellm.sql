-- The tables of LiteLLM that an import reads, as schema.prisma of BerriAI/litellm declares them for PostgreSQL (commit 029f645f,
-- read on 2026-11-28), with the columns that matter here.
CREATE TABLE "LiteLLM_BudgetTable" (
  "budget_id" text PRIMARY KEY, "max_budget" double precision, "soft_budget" double precision, "max_parallel_requests" integer,
  "tpm_limit" bigint, "rpm_limit" bigint, "model_max_budget" jsonb, "budget_duration" text, "budget_reset_at" timestamp(3)
);
CREATE TABLE "LiteLLM_TeamTable" (
  "team_id" text PRIMARY KEY, "team_alias" text, "organization_id" text, "admins" text[], "members" text[],
  "metadata" jsonb NOT NULL DEFAULT '{}', "max_budget" double precision, "spend" double precision NOT NULL DEFAULT 0,
  "models" text[], "max_parallel_requests" integer, "tpm_limit" bigint, "rpm_limit" bigint, "budget_duration" text,
  "blocked" boolean NOT NULL DEFAULT false, "model_max_budget" jsonb NOT NULL DEFAULT '{}', "router_settings" jsonb DEFAULT '{}',
  "access_group_ids" text[] DEFAULT '{}', "budget_limits" jsonb, "model_id" integer, "object_permission_id" text
);
CREATE TABLE "LiteLLM_UserTable" (
  "user_id" text PRIMARY KEY, "user_email" text, "password" text, "max_budget" double precision, "max_parallel_requests" integer,
  "tpm_limit" bigint, "rpm_limit" bigint, "budget_duration" text
);
CREATE TABLE "LiteLLM_ProxyModelTable" (
  "model_id" text PRIMARY KEY, "model_name" text NOT NULL, "litellm_params" jsonb NOT NULL, "model_info" jsonb
);
CREATE TABLE "LiteLLM_VerificationToken" (
  "token" text PRIMARY KEY, "key_name" text, "key_alias" text, "spend" double precision NOT NULL DEFAULT 0, "expires" timestamp(3),
  "models" text[], "aliases" jsonb NOT NULL DEFAULT '{}', "config" jsonb NOT NULL DEFAULT '{}', "router_settings" jsonb DEFAULT '{}',
  "user_id" text, "team_id" text, "project_id" text, "permissions" jsonb NOT NULL DEFAULT '{}', "max_parallel_requests" integer,
  "metadata" jsonb NOT NULL DEFAULT '{}', "blocked" boolean, "tpm_limit" bigint, "rpm_limit" bigint, "max_budget" double precision,
  "budget_duration" text, "allowed_routes" text[] DEFAULT '{}', "policies" text[] DEFAULT '{}',
  "access_group_ids" text[] DEFAULT '{}', "model_max_budget" jsonb NOT NULL DEFAULT '{}', "budget_limits" jsonb,
  "budget_id" text, "organization_id" text, "object_permission_id" text
);
INSERT INTO "LiteLLM_BudgetTable" (budget_id, max_budget, budget_duration, rpm_limit) VALUES ('tier-1', 20, '30d', 90);
INSERT INTO "LiteLLM_TeamTable" (team_id, team_alias, models, max_budget, budget_duration, tpm_limit, blocked) VALUES
  ('team-1', 'research', '{gpt-4o,gpt-4o-mini}', 500, '30d', 100000, false), ('team-2', 'gone', '{}', NULL, NULL, NULL, true);
INSERT INTO "LiteLLM_UserTable" (user_id, user_email, max_budget) VALUES ('ann', 'ann@example.com', 10);
INSERT INTO "LiteLLM_ProxyModelTable" VALUES ('m1', 'from-the-console', '{"model": "ZW5jcnlwdGVk"}', '{}');
