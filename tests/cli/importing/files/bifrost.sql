-- The tables of Bifrost's config store that an import reads, as framework/configstore/tables of maximhq/bifrost declares them
-- (key.go, provider.go, virtualkey.go, budget.go, ratelimit.go, team.go and customer.go, read on 2026-11-28).
CREATE TABLE config_providers (id integer PRIMARY KEY, name varchar(50), network_config_json text, concurrency_buffer_json text,
  proxy_config_json text, custom_provider_config_json text, budget_id varchar(255), rate_limit_id varchar(255));
CREATE TABLE config_keys (id integer PRIMARY KEY, name varchar(255), provider_id integer, provider varchar(50), key_id varchar(255),
  value text, models_json text, weight real, enabled numeric, aliases_json text, azure_endpoint text, vllm_url text, ollama_url text,
  sgl_url text, encryption_status varchar(20));
CREATE TABLE governance_virtual_keys (id varchar(255) PRIMARY KEY, name varchar(255), value text, is_active numeric, team_id varchar(255),
  customer_id varchar(255), rate_limit_id varchar(255), encryption_status varchar(20), value_hash varchar(64));
CREATE TABLE governance_virtual_key_provider_configs (id integer PRIMARY KEY, virtual_key_id varchar(255), provider varchar(50),
  weight real, allowed_models text, allow_all_keys numeric, rate_limit_id varchar(255));
CREATE TABLE governance_virtual_key_provider_config_keys (table_virtual_key_provider_config_id integer, table_key_id integer);
CREATE TABLE governance_budgets (id varchar(255) PRIMARY KEY, max_limit real, reset_duration varchar(50), team_id varchar(255),
  virtual_key_id varchar(255), provider_config_id integer, model_config_id varchar(255), customer_id varchar(255));
CREATE TABLE governance_rate_limits (id varchar(255) PRIMARY KEY, token_max_limit bigint, token_reset_duration varchar(50),
  request_max_limit bigint, request_reset_duration varchar(50));
CREATE TABLE governance_teams (id varchar(255) PRIMARY KEY, name varchar(255), customer_id varchar(255), rate_limit_id varchar(255));
CREATE TABLE governance_customers (id varchar(255) PRIMARY KEY, name varchar(255), rate_limit_id varchar(255));
CREATE TABLE governance_model_configs (id varchar(255) PRIMARY KEY, model_name varchar(255), provider varchar(50), scope varchar(50),
  rate_limit_id varchar(255));
CREATE TABLE routing_rules (id varchar(255) PRIMARY KEY, name varchar(255));
INSERT INTO config_providers (id, name, network_config_json) VALUES (1, 'openai', '{"base_url": "UPSTREAM"}');
INSERT INTO config_keys VALUES (1, 'main', 1, 'openai', 'key-a', 'env.OPENAI_KEY_A', '["gpt-4o"]', 1, 1, NULL, NULL, NULL, NULL, NULL,
  'plain_text'), (2, 'second', 1, 'openai', 'key-b', 'q83vEjRW', '["gpt-4o-mini"]', 1, 1, NULL, NULL, NULL, NULL, NULL, 'encrypted');
INSERT INTO governance_virtual_keys VALUES ('vk-1', 'app', 'sk-bf-plain-0123456789', 1, 'team-1', NULL, 'limit-1', 'plain_text', 'HASH'),
  ('vk-2', 'hidden', 'bm90IHRoZSBrZXk=', 1, 'team-1', NULL, NULL, 'encrypted', 'HASH'), ('vk-3', 'off', 'x', 0, NULL, NULL, NULL, '', '');
INSERT INTO governance_virtual_key_provider_configs VALUES (1, 'vk-1', 'openai', 1, '["*"]', 1, NULL),
  (2, 'vk-2', 'openai', 1, '["gpt-4o"]', 1, NULL);
INSERT INTO governance_rate_limits VALUES ('limit-1', 50000, '1m', 100, '1m');
INSERT INTO governance_teams VALUES ('team-1', 'research', NULL, NULL);
INSERT INTO governance_budgets VALUES ('b1', 500, '1M', 'team-1', NULL, NULL, NULL, NULL), ('b2', 7, '1d', NULL, 'vk-2', NULL, NULL, NULL),
  ('b3', 9, '1M', NULL, NULL, NULL, 'mc-1', NULL);
INSERT INTO governance_model_configs VALUES ('mc-1', 'gpt-4o-mini', 'openai', 'global', NULL);
INSERT INTO routing_rules VALUES ('r', 'to the cheap one');
