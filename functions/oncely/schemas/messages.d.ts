// Written by `oncely schemas`. A type for each message. Its field `job` says which one it is.

/** The order's customer is charged the order's amount, at most once. */
export type PaymentCharge = {
  job: "payment.charge";
  v: 1;
  order_id: string;
  /** in minor units: 1250 is 12.50 */
  amount?: number | null;
  /** three letters, such as eur */
  currency?: string | null;
  customer_id?: string | null;
  attempt?: number;
};

/** The order's customer gets the amount of the refund request back, at most once. */
export type PaymentRefund = {
  job: "payment.refund";
  v: 1;
  order_id: string;
  refund_id: string;
  /** in minor units: 1250 is 12.50 */
  amount?: number | null;
  /** three letters, such as eur */
  currency?: string | null;
};

/** One email goes to the order's receipt_email, or none. */
export type ReceiptSend = {
  job: "receipt.send";
  v: 1;
  /** time with a zone */
  run_at?: string | null;
  order_id: string;
};

/** None; Oncely reads the contact from HubSpot. */
export type SyncContact = {
  job: "sync.contact";
  v: 1;
  /** time with a zone */
  run_at?: string | null;
  source: "hubspot";
  source_id: string;
  event_id: string;
  /** ignored and not stored: Oncely fetches the contact itself */
  record?: Record<string, unknown> | null;
};

/** None; Oncely reads contacts from HubSpot, 100 at a time. */
export type SyncImport = {
  job: "sync.import";
  v: 1;
  /** time with a zone */
  run_at?: string | null;
  source: "hubspot";
  batch_id: string;
  /** a time, such as 2026-11-16T03:00:00Z */
  updated_since?: string | null;
};

/** The one HubSpot contact with our id is created or updated. A contact that has the record's email and none of our ids gets our id instead. */
export type SyncPush = {
  job: "sync.push";
  v: 1;
  /** time with a zone */
  run_at?: string | null;
  target: "hubspot";
  record_id: string;
  version: number;
};

export type Message = PaymentCharge | PaymentRefund | ReceiptSend | SyncContact | SyncImport | SyncPush;
